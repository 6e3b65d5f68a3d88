#!/bin/sh
# For the hook that a coding agent runs when a session ends: stops this session's gateway, and no other.
#
# The session is SESSION_ID, or `session_id` in the JSON that the agent writes to standard input.
set -eu

if [ -z "${SESSION_ID:-}" ] && [ ! -t 0 ]; then
  # The first one: what it stands before goes onto a line above.
  SESSION_ID=$(sed -n 's/"session_id"[[:space:]]*:[[:space:]]*"\([^"\\]*\)".*/\
\1/p' | sed -n 2p)
fi
export SESSION_ID="${SESSION_ID:-}"

exec transom session stop
