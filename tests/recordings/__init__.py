"""Exchanges recorded from real kube-apiservers, and what replays them against understudy."""
