"""HTTP/1 as Go's `net/http` reads it: what it accepts, what it refuses, and the pages that it sends then."""
