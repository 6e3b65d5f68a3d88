"""An MCP server on FastMCP that speaks both eras over HTTP, with the members a proxy likes to lose.

    modern.py PORT
"""

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp.tools.base import ToolResult
from mcp.types import ToolAnnotations

server = FastMCP("modern", instructions="A server of the 2026-07-28 revision.")


@server.tool(
    title="Add two numbers",
    annotations=ToolAnnotations(readOnlyHint=True, idempotentHint=True),
    meta={"example.org/cost": 3},
)
def add(a: int, b: int) -> dict[str, int]:
    """Adds a and b."""
    return {"sum": a + b}


@server.tool
def tagged(text: str) -> ToolResult:
    """Answers with metadata of its own."""
    return ToolResult(content=text.upper(), structured_content={"text": text.upper()}, meta={"example.org/trace": "t-1"})


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Counts, with progress, slowly enough that no two messages share a packet."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to)
        await asyncio.sleep(0.1)
    return f"counted to {to}"


@server.tool
def refuse() -> str:
    """Always fails."""
    raise ValueError("not today")


@server.resource("note://today")
def today() -> str:
    """A resource."""
    return "a sunny day"


@server.prompt
def greet(name: str) -> str:
    """A prompt with an argument."""
    return f"Say hello to {name}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
