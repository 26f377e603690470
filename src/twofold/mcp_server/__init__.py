"""The memory as an MCP server: tools, resources and a prompt, over stdio and streamable HTTP."""

from __future__ import annotations

from twofold.mcp_server.server import create, over_http, serve

__all__ = ["create", "over_http", "serve"]
