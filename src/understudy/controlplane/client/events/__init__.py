"""Events of components: how they are counted, joined to series, and sent."""
