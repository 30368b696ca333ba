// Peer is faktory_worker_go behind three small commands: push, send and consume. What send pushes,
// and consume --record notes, is alike in all peers.
// The benchmark and the interoperability tests run it; FAKTORY_URL names the server.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"
)

const usage = `usage: peer push --queue Q --jobtype T --count N
       peer send --queue Q --name NAME --count N
       peer consume --queue Q --slots N [--ledger FILE] [--record FILE]`

func main() {
	if len(os.Args) < 2 {
		exit(2, usage)
	}
	var err error
	switch os.Args[1] {
	case "push":
		err = push(os.Args[2:])
	case "send":
		err = send(os.Args[2:])
	case "consume":
		err = consume(os.Args[2:])
	default:
		exit(2, usage)
	}
	if err != nil {
		exit(1, err)
	}
}

func exit(code int, reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(code)
}

func push(args []string) error {
	flags := flag.NewFlagSet("push", flag.ExitOnError)
	queue := flags.String("queue", "default", "queue to push to")
	jobtype := flags.String("jobtype", "bench_noop", "job type of every job")
	count := flags.Int("count", 1, "number of jobs")
	_ = flags.Parse(args)

	client, err := faktory.Open()
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range *count {
		job := faktory.NewJob(*jobtype, i)
		job.Queue = *queue
		// faktory-rs refuses a job without this field.
		job.ReserveFor = 1800
		if err := client.Push(job); err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
	}
	return nil
}

func send(args []string) error {
	flags := flag.NewFlagSet("send", flag.ExitOnError)
	queue := flags.String("queue", "default", "queue to push to")
	name := flags.String("name", "", "first argument of every job")
	count := flags.Int("count", 1, "number of jobs")
	_ = flags.Parse(args)

	client, err := faktory.Open()
	if err != nil {
		return err
	}
	defer client.Close()
	for n := range *count {
		job := faktory.NewJob("pair", *name, strconv.Itoa(n), "Grüße <&> 🐈")
		job.Queue = *queue
		// faktory-rs refuses a job without this field.
		job.ReserveFor = 1800
		if n%2 == 0 {
			job.SetCustom("n", n)
		}
		if err := client.Push(job); err != nil {
			return fmt.Errorf("job %d: %w", n, err)
		}
	}
	return nil
}

func consume(args []string) error {
	flags := flag.NewFlagSet("consume", flag.ExitOnError)
	queue := flags.String("queue", "default", "queue to fetch from")
	slots := flags.Int("slots", 20, "jobs that run at one time")
	path := flags.String("ledger", "", "append the jid of every job here")
	recordPath := flags.String("record", "", "append what the jobs of send say here")
	_ = flags.Parse(args)

	book, err := openLedger(*path)
	if err != nil {
		return err
	}
	record, err := openLedger(*recordPath)
	if err != nil {
		return err
	}
	mgr := worker.NewManager()
	mgr.Concurrency = *slots
	// Run builds a pool of Concurrency+2 connections from FAKTORY_URL by itself.
	mgr.ProcessStrictPriorityQueues(*queue)
	mgr.Register("bench_noop", book.noted(noop))
	mgr.Register("add", book.noted(noop))
	mgr.Register("bench_sleep", book.noted(sleep))
	mgr.Register("pair", record.told)
	return mgr.Run()
}

func noop(context.Context, ...any) error { return nil }

// sleep takes [n, ms]; a job without ms does not sleep.
func sleep(_ context.Context, args ...any) error {
	if len(args) < 2 {
		return nil
	}
	ms, ok := args[1].(float64)
	if !ok {
		return fmt.Errorf("bench_sleep takes milliseconds, not %T", args[1])
	}
	time.Sleep(time.Duration(ms * float64(time.Millisecond)))
	return nil
}

// ledger appends one line per job; a nil file makes it free.
type ledger struct {
	mu   sync.Mutex
	file *os.File
}

func openLedger(path string) (*ledger, error) {
	if path == "" {
		return &ledger{}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &ledger{file: file}, err
}

func (l *ledger) noted(run worker.Perform) worker.Perform {
	if l.file == nil {
		return run
	}
	return func(ctx context.Context, args ...any) error {
		if err := run(ctx, args...); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		_, err := fmt.Fprintln(l.file, worker.HelperFor(ctx).Jid())
		return err
	}
}

func (l *ledger) told(ctx context.Context, args ...any) error {
	job := worker.HelperFor(ctx)
	n, _ := job.Custom("n")
	line, err := json.Marshal(map[string]any{"jid": job.Jid(), "args": args, "n": n})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = fmt.Fprintf(l.file, "%s\n", line)
	return err
}
