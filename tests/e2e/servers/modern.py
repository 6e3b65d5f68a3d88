"""An MCP server on FastMCP that speaks both eras over HTTP, with the members a proxy likes to lose.

    modern.py PORT
"""

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp.tools.base import Tool, ToolResult
from mcp.types import ToolAnnotations, ToolListChangedNotification

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


cancelled = {}


@server.tool
async def wait(key: str, ctx: Context) -> str:
    """Says that it has begun, and then takes longer than anybody waits. Remembers that it was cancelled."""
    await ctx.report_progress(1, 2)
    try:
        await asyncio.sleep(300)
    except asyncio.CancelledError:
        cancelled.setdefault(key, asyncio.Event()).set()
        raise
    return "nobody cancelled"


@server.tool
async def was_cancelled(key: str) -> bool:
    """Whether the call of `wait` with this key was cancelled, or will be within ten seconds."""
    try:
        await asyncio.wait_for(cancelled.setdefault(key, asyncio.Event()).wait(), 10)
    except asyncio.TimeoutError:
        return False
    return True


@server.tool
async def grow(key: str, ctx: Context) -> str:
    """Adds a tool to the list, and says so."""
    server.add_tool(Tool.from_function(lambda: key, name=f"grown_{key}", description="Grew while the server ran."))
    await ctx.send_notification(ToolListChangedNotification())
    return f"grown_{key}"


@server.resource("note://today")
def today() -> str:
    """A resource."""
    return "a sunny day"


@server.prompt
def greet(name: str) -> str:
    """A prompt with an argument."""
    return f"Say hello to {name}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
