"""Context assembly: what an assistant is given for its next turn, within a budget and without saying a thing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import pairwise, takewhile

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import messages as incoming
from twofold import quoting
from twofold.entities import Entities
from twofold.errors import EmbedderError, InvalidInput, NotFound
from twofold.recaller import MOST_LIMIT, Question, Recaller
from twofold.retrieve import Retriever
from twofold.scopes import Reach
from twofold.settings import SPECS, Value
from twofold.store import Store, rows
from twofold.text import query_terms
from twofold.types import Context, EntityHit, Episode, Hit, Passage, Scope

MESSAGE_OVERHEAD = 4  # tokens that a message takes beside its words: its role and what parts it from the next
RECENT_SHARE = 0.5  # of the budget, at most
ENTITY_SHARE = 0.15  # of the budget, at most
EPISODE_SHARE = 1 / 3  # of the room for passages, which one of several recalled episodes may take at first,
EPISODE_TOKENS = 200  # and what it may take in any case
SURPLUS = 3  # times as many hits are asked for as are given, since some repeat what is there
LEAST_EXCERPT = 32  # tokens; less of a long episode says too little

# Two texts say the same if they are the same words in the same order, but for case, quotes, the signs that end a
# word, and these words. No cosine can tell: of MiniLM's, "the office moved from Leeds to York" is nearer to the same
# from York to Leeds (.99), "the dog is allergic to chicken" to "not allergic" (.95) and one version number to the next
# (.95) than many a true repetition is ("thanks, ok" to "ok thanks", .70), and what was left out might be the news.
EMPTY_WORDS = frozenset("a an the please hi hello hey ok okay well".split())
QUOTES = "\"'“”‘’„«»"
ENDS = ".,;:!。，、！；："

NOTHING = Scope("sessions")


@dataclass(frozen=True, slots=True)
class Held:
    """What a caller has already and shall not get again: episodes by id, messages by their words."""

    ids: Collection[int] = ()
    texts: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class _Recent:
    """The last episodes of a session: those that are given and their tokens, and the ids of those that do not fit.

    `known` are the ids of all that the caller has or is given, which recall shall not bring again.
    """

    given: tuple[Episode, ...]
    tokens: int
    too_long: tuple[int, ...]
    known: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is asked for, checked."""

    message: str
    budget: int
    zone: tzinfo
    held: Held
    settings: Mapping[str, Value]

    @property
    def texts(self) -> set[str]:
        """What the caller has, as it was sent and as it was stored."""
        return {*self.held.texts, *map(quoting.unquoted, self.held.texts)}

    def whole(self, name: str) -> int:
        """A setting that is a whole number."""
        return int(self.settings[name])


@dataclass(slots=True)
class _Quotes:
    """What is quoted, as it is chosen, in `left` tokens, of which a session may take `share` and a hit `longest`.

    The ids `known` and what was `said` are not quoted beside a hit. `episodes` and `scores` are by id, the latter
    only of what was recalled, the best first; `cut` has the tokens of each that is quoted in part. `follows` leads
    from an episode to the one after it in its session, as far as that was looked up.
    """

    zone: tzinfo
    terms: Collection[str]
    known: Collection[int]
    said: set[str]
    left: int
    share: int
    longest: int
    used: Counter[int] = field(default_factory=Counter)
    episodes: dict[int, Episode] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)
    follows: dict[int, int] = field(default_factory=dict)

    def room(self, session: int) -> int:
        """What is left for a session."""
        return min(self.left, self.share - self.used[session])

    def take(self, hit: Hit) -> str | None:
        """Quote a hit, in part where it is too long; else say what has no room for it: the budget or the share."""
        episode, room = hit.episode, self.room(hit.episode.session_id)
        frame = quoting.line_tokens(quoting.passage_opening(episode), quoting.PASSAGE_CLOSING)
        part, tokens = self._part(episode, min(room, self.longest) - frame)
        if part is None:
            return "share" if room < self.left else "budget"
        self._put(part, tokens + frame)
        self.scores[episode.id] = hit.score
        self.said.add(_said(episode.content))
        if part is not episode:
            self.cut[episode.id] = tokens
        return None

    def surround(self, episode: Episode, before: Sequence[Episode], after: Sequence[Episode], most: int) -> None:
        """Quote up to `most` neighbours on either side, the nearest first, as far as they fit and say something new."""
        self.follows.update(pairwise(near.id for near in (*reversed(before), episode, *after)))
        # A question is worth quoting for its answer, and an answer is understood by its question.
        for side in (after, before) if episode.role == "user" else (before, after):
            for near in takewhile(lambda near: near.id not in self.known, side[:most]):
                if near.id in self.episodes:
                    continue
                said, tokens = _said(near.content), quoting.line_tokens(quoting.episode_line(near, self.zone))
                if said in self.said or tokens > self.room(near.session_id):
                    break
                self.said.add(said)
                self._put(near, tokens)

    def widen(self, whole: Episode) -> None:
        """Quote more of an episode that was cut, as much as there is room for."""
        had = self.cut.pop(whole.id)
        part, tokens = self._part(whole, had + self.room(whole.session_id))
        if part is not None and tokens > had:
            self._put(part, tokens - had)
        if part is not whole:
            self.cut[whole.id] = max(tokens, had)

    def passages(self) -> tuple[Passage, ...]:
        """What was chosen in stretches without a gap, the oldest first."""
        runs: list[list[Episode]] = []
        for episode in sorted(self.episodes.values(), key=lambda one: (one.session_id, *_order(one))):
            if runs and self.follows.get(runs[-1][-1].id) == episode.id:
                runs[-1].append(episode)
            else:
                runs.append([episode])
        return tuple(self._passage(run) for run in sorted(runs, key=lambda run: _order(run[0])))

    def _passage(self, run: Sequence[Episode]) -> Passage:
        ids = [episode.id for episode in run]
        recalled = tuple(id_ for id_ in ids if id_ in self.scores)
        best = next(score for id_, score in self.scores.items() if id_ in recalled)
        return Passage(tuple(run), recalled, best, tuple(id_ for id_ in ids if id_ in self.cut))

    def _part(self, episode: Episode, most: int) -> tuple[Episode | None, int]:
        """As much of an episode as `most` tokens hold, and its tokens; None where that is too little."""
        tokens = quoting.line_tokens(quoting.episode_line(episode, self.zone))
        if tokens <= most:
            return episode, tokens
        most -= quoting.line_tokens(quoting.episode_line(replace(episode, content=""), self.zone))
        text = quoting.excerpt(episode.content, self.terms, most) if most >= LEAST_EXCERPT else ""
        if not text:
            return None, 0
        part = replace(episode, content=text)
        return part, quoting.line_tokens(quoting.episode_line(part, self.zone))

    def _put(self, episode: Episode, tokens: int) -> None:
        self.episodes[episode.id] = episode
        self.left -= tokens
        self.used[episode.session_id] += tokens


class Assembler:
    """Puts a context together in one snapshot of the file, within the reach of the door it belongs to."""

    def __init__(
        self, store: Store, recaller: Recaller, retriever: Retriever, entities: Entities, reach: Reach
    ) -> None:
        self._store = store
        self._recaller = recaller
        self._retriever = retriever
        self._entities = entities
        self._reach = reach

    def context(
        self,
        message: str,
        *,
        session: str | None,
        project: str | None,
        budget: int | None,
        zone: str | None,
        held: Held,
        settings: Mapping[str, Value],
    ) -> Context:
        """What an assistant is given to answer `message`; `Memory.context` has the whole of it."""
        turn = _Turn(message, _budget(budget, settings), incoming.zone(zone), held, settings)
        incoming.content("the message", message)
        incoming.ids("held", held.ids)
        vector, failed = self._embedded(turn)
        with self._store.read() as db:
            own, scope = self._resolved(db, session, project)
            recent = _recent(db, own, turn)
            limit = min(MOST_LIMIT, SURPLUS * turn.whole("semanticLimit"))
            question = Question(message, exclude=recent.known, limit=limit, zone=zone)
            recall = self._recaller.within(db, question, scope, vector)
            degraded = {**recall.degraded, **failed}
            most = 0 if "semantic" in degraded else turn.whole("entityLimit")
            found = self._entities.find(db, message, vector, scope, most) if most else ()
            entities, room = _fitting(found, turn, recent)
            said = {_said(text) for text in (message, *turn.texts, *(episode.content for episode in recent.given))}
            hits = _distinct(recall.hits, said)
            quotes = _quotes(turn, recent, said, hits, room)
            refused = _fill(db, quotes, hits, turn)
        refused |= dict.fromkeys(recent.too_long, "budget")
        left_out = Counter(why for id_, why in refused.items() if id_ not in quotes.episodes)
        left_out["repeated"] = len(recall.hits) - len(hits)
        left_out["budget"] += len(found) - len(entities)
        passages = quotes.passages()
        text = quoting.block(entities, passages, turn.zone)
        return Context(
            message=message,
            recent=recent.given,
            passages=passages,
            entities=entities,
            text=text,
            tokens=recent.tokens + quoting.tokens(text),
            budget=turn.budget,
            left_out={why: count for why, count in sorted(left_out.items()) if count},
            degraded=degraded,
            explanation=recall.explanation,
        )

    def _embedded(self, turn: _Turn) -> tuple[NDArray[np.float32] | None, dict[str, str]]:
        """The message's vector, and why there is none where one was wanted."""
        if turn.settings["weights"] == "fixed" and not turn.settings["semanticWeight"]:
            return None, {}
        try:
            return self._retriever.embed(turn.message), {}
        except EmbedderError as error:
            return None, {"semantic": str(error)}

    def _resolved(self, db: apsw.Connection, session: str | None, project: str | None) -> tuple[int | None, Scope]:
        """The session, where it is there, and what may be recalled in it. Raises InvalidInput."""
        try:
            home = self._reach.project_id(db, project)
        except NotFound:
            return None, NOTHING
        if not session:
            return None, self._reach.resolve(db, None, project)
        try:
            scope = self._reach.resolve(db, session, project)
        except NotFound:
            return None, NOTHING if home is None else Scope("project", (home,))
        (own,) = scope.ids
        home = rows.project_of_session(db, own)
        return own, scope if home is None else Scope("project", (home,))


def _recent(db: apsw.Connection, session: int | None, turn: _Turn) -> _Recent:
    """The last episodes of a session, the newest first until one does not fit, without those that the caller has.

    Those that do not fit may be recalled as any other: else a long paste would be lost to the very next turn.
    """
    last = rows.last_episodes(db, session, turn.whole("recentLimit")) if session else []
    texts = turn.texts
    new = [one for one in reversed(last) if one.id not in turn.held.ids and one.content not in texts]
    fits, left = 0, int(turn.budget * RECENT_SHARE)
    for episode in new:
        tokens = quoting.tokens(episode.content) + MESSAGE_OVERHEAD
        if tokens > left:
            break
        fits, left = fits + 1, left - tokens
    given = tuple(reversed(new[:fits]))
    had = rows.episodes_of_contents(db, session, texts) if session and texts else []
    known = frozenset((*turn.held.ids, *had, *(episode.id for episode in given)))
    used = int(turn.budget * RECENT_SHARE) - left
    return _Recent(given, used, tuple(episode.id for episode in new[fits:]), known)


def _fitting(found: Sequence[EntityHit], turn: _Turn, recent: _Recent) -> tuple[tuple[EntityHit, ...], int]:
    """The entities that fit, the best first, and the tokens that are left for passages."""
    room = max(0, turn.budget - recent.tokens - quoting.frame_tokens())
    left = most = min(room, int(turn.budget * ENTITY_SHARE))
    chosen = []
    for hit in found:
        tokens = quoting.line_tokens(quoting.entity_line(hit.entity))
        if tokens <= left:
            chosen.append(hit)
            left -= tokens
    return tuple(chosen), room - (most - left)


def _distinct(hits: Sequence[Hit], said: Collection[str]) -> list[Hit]:
    """The hits that say something new, in their order. Of those that say the same the last counts, as of now."""
    places: dict[str, int] = {}
    kept: list[Hit] = []
    for hit in hits:
        text = _said(hit.episode.content)
        if text in said:
            continue
        place = places.setdefault(text, len(kept))
        if place == len(kept):
            kept.append(hit)
        elif _order(hit.episode) > _order(kept[place].episode):
            kept[place] = hit
    return kept


def _quotes(turn: _Turn, recent: _Recent, said: set[str], hits: Sequence[Hit], room: int) -> _Quotes:
    """Nothing quoted yet, and the room for it."""
    several = len({hit.episode.session_id for hit in hits}) > 1
    return _Quotes(
        zone=turn.zone,
        terms=query_terms(turn.message),
        known=recent.known,
        said=said,
        left=room,
        share=int(room * float(turn.settings["sessionShare"])) if several else room,
        longest=max(int(room * EPISODE_SHARE), EPISODE_TOKENS) if len(hits) > 1 else room,
    )


def _fill(db: apsw.Connection, quotes: _Quotes, hits: Sequence[Hit], turn: _Turn) -> dict[int, str]:
    """Quote hits, the best first, then their neighbours, then more of those that were cut; what had no room, and why.

    So where the room is small the neighbours go first.
    """
    refused: dict[int, str] = {}
    limit, neighbours = turn.whole("semanticLimit"), turn.whole("neighbours")
    for place, hit in enumerate(hits):
        if len(quotes.scores) == limit:
            break
        why = quotes.take(hit)
        if why and place < limit:  # a later one only stands in
            refused[hit.episode.id] = why
    taken = [hit.episode for hit in hits if hit.episode.id in quotes.scores]
    for episode in taken:
        # One more than is quoted shows whether two stretches meet.
        quotes.surround(episode, *rows.episodes_around(db, episode, neighbours + 1), neighbours)
    for episode in taken:
        if episode.id in quotes.cut and quotes.room(episode.session_id) >= LEAST_EXCERPT:
            quotes.widen(episode)
    return refused


def _budget(budget: int | None, settings: Mapping[str, Value]) -> int:
    """The tokens that a context may take. Raises InvalidInput."""
    if budget is None:
        return int(settings["tokenBudget"])
    spec = SPECS["tokenBudget"]
    if isinstance(budget, bool) or not isinstance(budget, int) or not spec.least <= budget <= spec.most:
        raise InvalidInput(f"budget is {budget!r}; give {spec.allowed}")
    return budget


def _said(text: str) -> str:
    """A text as it is compared with others: what it says, however it is written."""
    words = [word.rstrip(ENDS + QUOTES).lstrip(QUOTES) for word in text.casefold().split()]
    full = [word for word in words if word and word not in EMPTY_WORDS]
    return " ".join(full or text.casefold().split())


def _order(episode: Episode) -> tuple[datetime, int]:
    return episode.time, episode.id
