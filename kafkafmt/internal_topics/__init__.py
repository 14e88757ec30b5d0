"""Decode records of Kafka's internal topics, such as `__consumer_offsets`, according to their
schemas.
"""
