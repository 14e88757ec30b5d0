"""Small helpers that know nothing about Kafka's formats: arguments, paths, times, text, threads."""
