#!/bin/sh
# Lists and calls the tools with the official MCP inspector (needs node, and fetches it from npm).
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
inspect() { npx --yes @modelcontextprotocol/inspector --cli "$python" -m twofold mcp --db "$folder/memories.db" "$@"; }
inspect --method tools/list
inspect --method tools/call --tool-name remember --tool-arg "text=The gate code changed on Monday." --tool-arg project=home
inspect --method tools/call --tool-name recall --tool-arg "query=what about the gate?"
inspect --method tools/call --tool-name search --tool-arg "query=gate"
inspect --method resources/list
inspect --method prompts/list
