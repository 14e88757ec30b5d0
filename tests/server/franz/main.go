// Read records with franz-go, and print one JSON object for each record.
//
//	franz ADDRESS ISOLATION COUNT "" TOPIC/PARTITION…   read COUNT records of partitions
//	franz ADDRESS ISOLATION COUNT GROUP TOPIC/PARTITION…  read them with a group of two members, and commit
//
// After COUNT records, the program waits for one second for records that are not expected.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const members = 2

type row struct {
	Member    int    `json:"member"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
}

// assignment counts the partitions of each member of a group.
type assignment struct {
	sync.Mutex
	counts [members]int
}

func (a *assignment) add(member, sign int, partitions map[string][]int32) {
	a.Lock()
	defer a.Unlock()
	for _, numbers := range partitions {
		a.counts[member] += sign * len(numbers)
	}
}

func (a *assignment) complete(total int) bool {
	a.Lock()
	defer a.Unlock()
	sum := 0
	for _, count := range a.counts {
		if count == 0 {
			return false
		}
		sum += count
	}
	return sum == total
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func main() {
	address, isolation, group := os.Args[1], kgo.ReadUncommitted(), os.Args[4]
	if os.Args[2] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail("COUNT: %v", err)
	}
	partitions, topics := map[string]map[int32]kgo.Offset{}, []string{}
	for _, name := range os.Args[5:] {
		topic, number, _ := strings.Cut(name, "/")
		partition, err := strconv.Atoi(number)
		if err != nil {
			fail("PARTITION: %v", err)
		}
		if partitions[topic] == nil {
			partitions[topic] = map[int32]kgo.Offset{}
			topics = append(topics, topic)
		}
		partitions[topic][int32(partition)] = kgo.NewOffset().AtStart()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(address), kgo.FetchIsolationLevel(isolation)}
	rows := make(chan row, 1000)
	if group == "" {
		client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(partitions))...)
		if err != nil {
			fail("%v", err)
		}
		go poll(ctx, client, 0, rows)
		write(ctx, rows, count)
		client.Close()
		return
	}
	var assigned assignment
	clients := []*kgo.Client{}
	for member := range members {
		client, err := kgo.NewClient(append(options,
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { assigned.add(member, 1, p) }),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { assigned.add(member, -1, p) }),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { assigned.add(member, -1, p) }),
		)...)
		if err != nil {
			fail("%v", err)
		}
		clients = append(clients, client)
	}
	// A member that reads before the other member has joined would read all partitions.
	for !assigned.complete(len(os.Args) - 5) {
		if ctx.Err() != nil {
			fail("the members have %v of %d partitions", assigned.counts, len(os.Args)-5)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for member, client := range clients {
		go poll(ctx, client, member, rows)
	}
	write(ctx, rows, count)
	for _, client := range clients {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			fail("commit: %v", err)
		}
		client.Close()
	}
}

func poll(ctx context.Context, client *kgo.Client, member int, rows chan<- row) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				fail("%s/%d: %v", topic, partition, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			rows <- row{member, r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value}
		})
	}
}

func write(ctx context.Context, rows <-chan row, count int) {
	buffer := bufio.NewWriter(os.Stdout)
	defer buffer.Flush()
	encoder, more := json.NewEncoder(buffer), (<-chan time.Time)(nil)
	for read := 0; ; {
		if read >= count && more == nil {
			more = time.After(time.Second)
		}
		select {
		case r := <-rows:
			if err := encoder.Encode(r); err != nil {
				fail("%v", err)
			}
			read++
		case <-more:
			return
		case <-ctx.Done():
			buffer.Flush()
			fail("%d of %d records were read in 60 seconds", read, count)
		}
	}
}
