"""Read the state of a KRaft cluster from its metadata log: topics, configs, ACLs, brokers, and so on."""
