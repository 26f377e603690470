"""Retrieval quality: python -m benchmarks.retrieval DIR [DIR ...] is another name of `twofold eval`."""

import sys

from twofold.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "eval")
    main()
