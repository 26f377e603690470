"""The service: everything that Memory has, over HTTP. `app.create` makes it, `server.serve` runs it."""
