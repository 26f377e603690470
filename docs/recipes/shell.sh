#!/bin/sh
# Memory in the shell: what a command said is kept, and found again by what it was about.
set -eu
date +"the backup of %Y-%m-%d took 42 minutes" | twofold add - --session backups --project ops
twofold recall "how long did the backup take" --project ops --limit 1 --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["hits"][0]["episode"]["content"])'
