"""Write the rows of files and tables to new log directories (`kafkafmt.make`)."""
