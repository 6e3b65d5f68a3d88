"""Plays a conversation with the Python SDK `mcp`, or with the client of FastMCP, and prints what came back as one line of JSON.

    python.py URL MODE STEPS        MODE: legacy, auto, or a modern revision such as 2026-07-28; with `fastmcp:` before it, by FastMCP

In place of a URL there may be a server to start, as JSON: {"command": ..., "args": [...]}. STEPS and the answer are described in tests/e2e/talk.rs.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

import fastmcp
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import listen as listen_on_session
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceListChangedNotification, ToolListChangedNotification


changes = {"tools": asyncio.Event(), "resources": asyncio.Event()}


async def hear(message):
    match getattr(message, "root", message):
        case ToolListChangedNotification():
            changes["tools"].set()
        case ResourceListChangedNotification():
            changes["resources"].set()


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def connect(url, mode):
    kind, _, fast_mode = mode.rpartition(":")
    process = json.loads(url) if url.startswith("{") else None
    if kind == "fastmcp":
        # With one of its own clients FastMCP raises what a tool says is an error; the others return it.
        return fastmcp.Client(StdioTransport(**process) if process else url, mode=fast_mode, message_handler=hear)
    return Client(StdioServerParameters(**process) if process else url, mode=mode, message_handler=hear)


async def call(client, step, on_progress=None):
    if isinstance(client, fastmcp.Client):
        return await client.call_tool_mcp(step["name"], step["arguments"], progress_handler=on_progress)
    return await client.call_tool(step["name"], step["arguments"], progress_callback=on_progress)


async def listed(client):
    """Every tool. FastMCP's own `list_tools` leaves the result's other members out."""
    return await (client.list_tools_mcp() if isinstance(client, fastmcp.Client) else client.list_tools())


async def cancel(client, step):
    begun = asyncio.Event()

    async def note(*_):
        begun.set()

    running = asyncio.create_task(call(client, {"name": step["cancel"], "arguments": step["arguments"]}, note))
    await asyncio.wait_for(begun.wait(), 20)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return {"cancelled": running.cancelled()}


async def found(client, kind, expect):
    if kind == "tools":
        return expect in [tool.name for tool in (await listed(client)).tools]
    listing = await (client.list_resources_mcp() if isinstance(client, fastmcp.Client) else client.list_resources())
    return expect in [str(resource.uri) for resource in listing.resources]


async def change(client, step):
    """Changes a list, and waits until it was told so and finds what is new."""
    kind = step.get("of", "tools")
    told = changes[kind]
    sdk = client.session if isinstance(client, fastmcp.Client) else client
    async with AsyncExitStack() as stack:
        if client_revision(client) >= "2026-07-28":
            subscription = await stack.enter_async_context(listen(sdk, kind))

            async def pump():
                async for _ in subscription:
                    told.set()

            listening = asyncio.create_task(pump())
            stack.callback(listening.cancel)
        async with asyncio.timeout(20):
            await call(client, {"name": step["change"], "arguments": step["arguments"]})
            while True:
                await told.wait()
                told.clear()
                if await found(client, kind, step["expect"]):
                    return {"changed": True}


def listen(sdk, kind):
    wanted = {"tools_list_changed": kind == "tools", "resources_list_changed": kind == "resources"}
    if isinstance(sdk, Client):
        return sdk.listen(**wanted)
    return listen_on_session(sdk, **wanted, prompts_list_changed=False, resource_subscriptions=())


def client_revision(client):
    return client.session.protocol_version if isinstance(client, fastmcp.Client) else client.protocol_version


async def take(client, step):
    match step:
        case {"list": "tools"}:
            return plain(await listed(client))
        case {"list": what}:
            return plain(await getattr(client, {"resources": "list_resources", "prompts": "list_prompts"}[what])())
        case {"read": uri}:
            return plain(await client.read_resource(uri))
        case {"prompt": name, "arguments": arguments}:
            return plain(await client.get_prompt(name, arguments))
        case {"cancel": _}:
            return await cancel(client, step)
        case {"change": _}:
            return await change(client, step)
        case {"call": name, "arguments": arguments}:
            progress = []

            async def note(done, total, _message):
                progress.append([int(done), int(total)])  # the SDK makes them floats

            callback = note if step.get("progress") else None
            result = plain(await call(client, {"name": name, "arguments": arguments}, callback))
            return {"progress": progress, "result": result} if callback else result


async def main(url, mode, steps):
    async with connect(url, mode) as client:
        replies = []
        for step in steps:
            try:
                replies.append(await take(client, step))
            except MCPError as error:
                replies.append({"error": {"code": error.error.code, "message": error.error.message}})
        print(json.dumps({"revision": client_revision(client), "replies": replies}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
