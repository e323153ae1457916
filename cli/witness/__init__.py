"""The witness server: what it remembers, which logs it cosigns for, and how it answers over HTTP (C2SP tlog-witness).

`cosigner` whose keys sign, and which of them ever did · `state` the decision and its one durable transaction ·
`binding` which keys a state belongs to · `loglist` the logs that may ask · `rates` how often they may · `queue`
requests that arrive together share one commit · `server` HTTP.
"""
