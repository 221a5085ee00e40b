#!/usr/bin/env bash
# Refine a text, say which of two drafts is better, and print the pair for a trainer.
#
#     examples/pairs.sh > pairs.jsonl
#
# HONE_SERVER is the address of the server. Needs curl (7.76 or newer) and jq.
set -euo pipefail

server=${HONE_SERVER:-http://localhost:8080}
request=$(dirname "$0")/improve-an-email.json
curl=(curl --silent --show-error --fail-with-body --header 'Content-Type: application/json')

id=$("${curl[@]}" "$server/v1/refinements" --header 'Prefer: wait=30' --data-binary "@$request" |
  jq --raw-output .id)
"${curl[@]}" "$server/v1/refinements/$id/ratings" --output /dev/null \
  --data '{"path": "iterations/1", "better_than": "iterations/0", "by": "Ann"}'
"${curl[@]}" "$server/v1/pairs?source=rating&form=conversational"
