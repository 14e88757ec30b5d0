//! Read partitions with rskafka, and print one JSON object for each record.
//!
//!     rskafka-client HOST:PORT TOPIC/PARTITION/FIRST/END ...
//!
//! The program reads the offsets from FIRST to END (exclusive).

use std::env;
use std::error::Error;

use rskafka::client::partition::UnknownTopicHandling;
use rskafka::client::{Client, ClientBuilder};
use serde_json::json;

const MAX_BYTES: i32 = 1 << 20;
const MAX_WAIT_MS: i32 = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let client = ClientBuilder::new(vec![arguments[0].clone()]).build().await?;
    for partition in &arguments[1..] {
        let parts: Vec<&str> = partition.split('/').collect();
        read(&client, parts[0], parts[1].parse()?, parts[2].parse()?, parts[3].parse()?).await?;
    }
    Ok(())
}

async fn read(client: &Client, topic: &str, partition: i32, first: i64, end: i64) -> Result<(), Box<dyn Error>> {
    let reader = client.partition_client(topic, partition, UnknownTopicHandling::Error).await?;
    let mut next = first;
    while next < end {
        let (records, _) = reader.fetch_records(next, 1..MAX_BYTES, MAX_WAIT_MS).await?;
        if records.is_empty() {
            return Err(format!("{topic}-{partition}: no records at offset {next}, before offset {end}").into());
        }
        for found in records {
            if found.offset < next {
                continue;
            }
            next = found.offset + 1;
            let line = json!({
                "topic": topic,
                "partition": partition,
                "offset": found.offset,
                "timestamp": found.record.timestamp.timestamp_millis(),
                "key": found.record.key,
                "value": found.record.value,
            });
            println!("{line}");
        }
    }
    Ok(())
}
