"""Bring a log's checkpoints to its witnesses, and publish them.

Modules: `policy_file` whom to ask · `client` one conversation with one witness · `transport` over HTTP · `rounds` all
witnesses at once · `memory` what is remembered of them, outside the store · `signing` what must hold before a log is
signed · `publisher` from signed to published, one log · `daemon` all logs, again and again.
"""
