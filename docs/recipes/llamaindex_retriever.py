"""Twofold as a LlamaIndex retriever: pip install llama-index-core twofold"""

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from twofold import Memory


class TwofoldRetriever(BaseRetriever):
    """What fits a query best, as nodes with where and when it was said."""

    def __init__(self, memory: Memory, project: str | None = None, session: str | None = None, k: int = 5) -> None:
        super().__init__()
        self._memory, self._project, self._session, self._k = memory, project, session, k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._memory.recall(query_bundle.query_str, project=self._project, session=self._session, limit=self._k)
        return [
            NodeWithScore(
                node=TextNode(
                    text=hit.episode.content,
                    id_=str(hit.episode.id),
                    metadata={"session": hit.episode.session, "time": hit.episode.time.isoformat()},
                ),
                score=hit.score,
            )
            for hit in found
        ]
