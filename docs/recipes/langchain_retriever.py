"""Twofold as a LangChain retriever: pip install langchain-core twofold"""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from twofold import Memory


class TwofoldRetriever(BaseRetriever):
    """What fits a query best, as documents with where and when it was said."""

    memory: Any
    project: str | None = None
    session: str | None = None
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        memory: Memory = self.memory
        found = memory.recall(query, project=self.project, session=self.session, limit=self.k)
        return [
            Document(
                page_content=hit.episode.content,
                id=str(hit.episode.id),
                metadata={"score": hit.score, "session": hit.episode.session, "time": hit.episode.time.isoformat()},
            )
            for hit in found
        ]
