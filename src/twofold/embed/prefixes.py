"""What models were trained to see before a query and before a document, by their names.                    pure"""

from __future__ import annotations

import re

_SEARCH = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

# From the models' own pages. Each pattern is looked for in the name in small letters, the first that fits counts.
KNOWN: tuple[tuple[str, str, str], ...] = (
    (r"\be5-[^/]*instruct", _INSTRUCT, ""),
    (r"\be5\b", "query: ", "passage: "),
    (r"nomic-embed-text", "search_query: ", "search_document: "),
    (r"arctic-embed2|arctic-embed-[ml]-v2", "query: ", ""),
    (r"arctic-embed|mxbai-embed-large|bge-(small|base|large)-en", _SEARCH, ""),
    (r"bge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"embeddinggemma", "task: search result | query: ", "title: none | text: "),
    (r"qwen3-embedding|\bstella[-_]en", _INSTRUCT, ""),
)


def prefixes(model: str) -> tuple[str, str]:
    """The prefixes of a query and of a document; empty where the model needs none, or is not known."""
    for pattern, query, document in KNOWN:
        if re.search(pattern, model.lower()):
            return query, document
    return "", ""
