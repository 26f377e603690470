"""Long texts in overlapping pieces that a model takes whole, so that nothing of a text is cut off.          pure"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# A sentence or two, so that what is cut at the end of one piece is whole in the next.
OVERLAP = 32
# A tokenised text takes a hundred times its size, hence a long text is tokenised in parts.
PART = re.compile(r"(?s).{1,50000}(?=[ \t\r\n]|\Z)|.{1,50000}")

# Where there is no tokenizer, a text is cut by its bytes: 300 tokens of English, 400 of Chinese, so that a model with
# room for 512 takes it, its prefix included.
PIECE_BYTES = 1200
OVERLAP_BYTES = 120
LAST_WORDS = 0.25  # of a piece, in which a white space is looked for to cut at


def by_tokens(tokenizer: Tokenizer, text: str, room: int) -> list[str]:
    """Pieces of at most `room` tokens that cover a text; the tokenizer neither cuts nor pads."""
    offsets = _offsets(tokenizer, text)
    if len(offsets) <= room:
        return [text]
    found = []
    for cut in _cuts(len(offsets), room):
        piece = text[offsets[cut][0][0] : offsets[cut][-1][1]]
        # What begins within a word may have more tokens than it had in the word.
        found += by_tokens(tokenizer, piece, room) if 0 < len(piece) < len(text) else [piece]
    return found


def by_bytes(text: str, most: int = PIECE_BYTES, overlap: int = OVERLAP_BYTES) -> list[str]:
    """Pieces of at most `most` (12 or more) bytes in UTF-8 that cover a text, cut at white space where there is some.

    Neighbours share up to `overlap` bytes, at most a third of `most`; the last piece is as long as the others.
    """
    found: list[str] = []
    start = 0
    while True:
        piece = _beginning(text[start : start + most], most)
        if start + len(piece) >= len(text):
            whole = _end(text[-most:], most)
            words = _from_word(whole)
            return [*found, words if len(words) >= len(text) - start else whole] if found else [piece]
        least = int(len(piece) * (1.0 - LAST_WORDS))
        space = re.search(r"(?s)^.*\s", piece[least:])
        piece = piece[: least + space.end()] if space else piece
        found.append(piece)
        start += len(piece) - len(_from_word(_end(piece, overlap)))


def _from_word(text: str) -> str:
    """A text without what may be the end of a word that it begins with."""
    return re.sub(r"^\S+\s+(?=\S)", "", text)


def _beginning(text: str, most: int) -> str:
    """The longest beginning of at most `most` bytes."""
    return text.encode()[:most].decode(errors="ignore")


def _end(text: str, most: int) -> str:
    """The longest end of at most `most` bytes."""
    whole = text.encode()
    return whole[max(0, len(whole) - most) :].decode(errors="ignore")


def _offsets(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Where in the text each token is, first to last character."""
    offsets: list[tuple[int, int]] = []
    for part in PART.finditer(text):
        encoding = tokenizer.encode(part.group(), add_special_tokens=False)
        offsets += [(part.start() + start, part.start() + end) for start, end in encoding.offsets]
    return offsets


def _cuts(tokens: int, room: int) -> list[slice]:
    """Slices of about equal length that cover all tokens, neighbours sharing up to OVERLAP of them."""
    overlap = min(OVERLAP, room // 4)
    count = -(-(tokens - overlap) // (room - overlap))
    length = -(-(tokens + (count - 1) * overlap) // count)
    starts = [(tokens - length) * index // (count - 1) for index in range(count)]
    return [slice(start, start + length) for start in starts]
