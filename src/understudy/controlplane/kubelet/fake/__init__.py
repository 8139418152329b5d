"""A stand-in for a DRA driver, which tests of what is around drivers run: `understudy.testing.FakeDriver`."""
