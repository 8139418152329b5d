"""ResourceQuota: what objects use, whether the quotas of their namespace have room, and what they are charged."""
