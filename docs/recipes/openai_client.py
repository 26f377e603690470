"""Any OpenAI client gets memory by its base URL: python openai_client.py "What did we decide about billing?"

Before: `twofold settings llmModel=...` and `twofold serve`, which passes questions on to your model (docs/service.md).
"""

import sys

from openai import OpenAI


def ask(question: str, base_url: str = "http://127.0.0.1:4000/v1", session: str = "desk", project: str = "work") -> str:
    """The answer of a model that is given what Twofold recalls; question and answer are remembered."""
    client = OpenAI(base_url=base_url, api_key="not needed on this machine")
    answer = client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=[{"role": "user", "content": question}],
        extra_headers={"X-Twofold-Session": session, "X-Twofold-Project": project},
    )
    return answer.choices[0].message.content or ""


if __name__ == "__main__":
    print(ask(" ".join(sys.argv[1:]) or "What do you remember?"))
