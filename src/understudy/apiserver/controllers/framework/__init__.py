"""The framework of controllers: informers that follow objects, work queues of keys, and who works them off."""
