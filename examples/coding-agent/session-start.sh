#!/bin/sh
# For the hook that a coding agent runs when a session begins: starts this session's gateway and says where it is.
#
# The session is SESSION_ID, or `session_id` in the JSON that the agent writes to standard input. What is said goes into the agent's env file if
# it has one (CLAUDE_ENV_FILE), else to standard output. TRANSOM_CONFIG names another config than the one beside this script.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ -z "${SESSION_ID:-}" ] && [ ! -t 0 ]; then
  # The first one: what it stands before goes onto a line above.
  SESSION_ID=$(sed -n 's/"session_id"[[:space:]]*:[[:space:]]*"\([^"\\]*\)".*/\
\1/p' | sed -n 2p)
fi
export SESSION_ID="${SESSION_ID:-}"

set -- session start --config "${TRANSOM_CONFIG:-$here/config.yaml}"
if [ -n "${CLAUDE_ENV_FILE:-}" ]; then
  set -- "$@" --env-file "$CLAUDE_ENV_FILE"
fi
exec transom "$@"
