"""Plays a conversation with the Python SDK `mcp` and prints what came back as one line of JSON.

    python.py URL MODE STEPS        MODE: legacy, auto, or a modern revision such as 2026-07-28

STEPS and the answer are described in tests/e2e/talk.rs.
"""

import asyncio
import json
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def take(client, step):
    match step:
        case {"list": what}:
            return plain(await getattr(client, {"tools": "list_tools", "resources": "list_resources", "prompts": "list_prompts"}[what])())
        case {"read": uri}:
            return plain(await client.read_resource(uri))
        case {"prompt": name, "arguments": arguments}:
            return plain(await client.get_prompt(name, arguments))
        case {"call": name, "arguments": arguments}:
            progress = []

            async def note(done, total, _message):
                progress.append([int(done), int(total)])  # the SDK makes them floats

            callback = note if step.get("progress") else None
            result = plain(await client.call_tool(name, arguments, progress_callback=callback))
            return {"progress": progress, "result": result} if callback else result


async def main(url, mode, steps):
    async with Client(url, mode=mode) as client:
        replies = []
        for step in steps:
            try:
                replies.append(await take(client, step))
            except MCPError as error:
                replies.append({"error": {"code": error.error.code, "message": error.error.message}})
        print(json.dumps({"revision": client.protocol_version, "replies": replies}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
