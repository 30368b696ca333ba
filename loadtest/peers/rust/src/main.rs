//! The crate `faktory` behind three small commands: push, send and consume. What send pushes, and
//! consume --record notes, is alike in all peers.
//! The benchmark and the interoperability tests run it; FAKTORY_URL names the server.

use faktory::{Client, Job, Worker};
use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::signal::unix::{signal, SignalKind};
use tokio::task::JoinSet;

const USAGE: &str = "usage: peer push --queue Q --jobtype T --count N
       peer send --queue Q --name NAME --count N
       peer consume --queue Q --slots N [--ledger FILE] [--record FILE]";

/// A Worker connects its slots one after the other and beats only when all are there: with 1,000
/// slots at 50 ms the server drops it first, after 60 s without a beat. Several Workers in one
/// runtime, which the crate's documentation offers too, connect side by side.
const SLOTS_PER_WORKER: usize = 50;

type Options = HashMap<String, String>;

/// One line per job; without a file it costs nothing.
type Ledger = Option<Arc<Mutex<File>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let options = options(args)?;
    match mode.as_str() {
        "push" => push(&options).await,
        "send" => send(&options).await,
        "consume" => consume(&options).await,
        _ => Err(USAGE.into()),
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut found = Options::new();
    while let Some(name) = args.next() {
        let key = name.strip_prefix("--").ok_or(USAGE)?.to_string();
        found.insert(key, args.next().ok_or(USAGE)?);
    }
    Ok(found)
}

fn text<'a>(options: &'a Options, key: &str, default: &'a str) -> &'a str {
    options.get(key).map_or(default, String::as_str)
}

async fn push(options: &Options) -> Result<(), Box<dyn Error>> {
    let queue = text(options, "queue", "default");
    let jobtype = text(options, "jobtype", "bench_noop");
    let count: u64 = text(options, "count", "1").parse()?;
    let mut client = Client::connect().await?;
    for i in 0..count {
        client
            .enqueue(Job::new(jobtype, vec![i]).on_queue(queue))
            .await?;
    }
    Ok(())
}

async fn send(options: &Options) -> Result<(), Box<dyn Error>> {
    let queue = text(options, "queue", "default");
    let name = text(options, "name", "");
    let count: u64 = text(options, "count", "1").parse()?;
    let mut client = Client::connect().await?;
    for n in 0..count {
        let args = vec![name.to_string(), n.to_string(), "Grüße <&> 🐈".to_string()];
        let mut job = Job::new("pair", args).on_queue(queue);
        if n % 2 == 0 {
            job.custom.insert("n".to_string(), n.into());
        }
        client.enqueue(job).await?;
    }
    Ok(())
}

fn open(path: Option<&String>) -> io::Result<Ledger> {
    let Some(path) = path else { return Ok(None) };
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Some(Arc::new(Mutex::new(file))))
}

async fn consume(options: &Options) -> Result<(), Box<dyn Error>> {
    let queue = text(options, "queue", "default").to_string();
    let mut slots: usize = text(options, "slots", "20").parse()?;
    let ledger = open(options.get("ledger"))?;
    let record = open(options.get("record"))?;
    let mut workers = JoinSet::new();
    while slots > 0 {
        let share = slots.min(SLOTS_PER_WORKER);
        workers.spawn(work(queue.clone(), share, ledger.clone(), record.clone()));
        slots -= share;
    }
    while let Some(end) = workers.join_next().await {
        end??;
    }
    Ok(())
}

async fn work(
    queue: String,
    slots: usize,
    ledger: Ledger,
    record: Ledger,
) -> Result<(), faktory::Error> {
    let mut terminate = signal(SignalKind::terminate()).expect("the runtime handles signals");
    let mut builder = Worker::builder()
        .workers(slots)
        .with_graceful_shutdown(async move {
            terminate.recv().await;
        });
    for jobtype in ["bench_noop", "bench_sleep", "add"] {
        let ledger = ledger.clone();
        builder = builder.register_fn(jobtype, move |job| run(job, ledger.clone()));
    }
    builder = builder.register_fn("pair", move |job| tell(job, record.clone()));
    let mut worker = builder.connect().await?;
    worker.run(&[queue]).await.map(drop)
}

/// Sleep when the job asks for it: bench_sleep takes [n, ms], the others ignore their arguments.
async fn run(job: Job, ledger: Ledger) -> Result<(), io::Error> {
    if job.kind() == "bench_sleep" {
        if let Some(ms) = job.args().get(1).and_then(|value| value.as_u64()) {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
    append(ledger, job.id().as_str())
}

/// The jid and its arguments, and `n` of its custom data, as JSON.
async fn tell(job: Job, record: Ledger) -> Result<(), io::Error> {
    let args: Vec<String> = job.args().iter().map(|value| value.to_string()).collect();
    let n = job.custom.get("n").map_or("null".to_string(), |value| value.to_string());
    let jid = job.id().as_str();
    append(record, &format!("{{\"jid\":\"{jid}\",\"args\":[{}],\"n\":{n}}}", args.join(",")))
}

fn append(ledger: Ledger, line: &str) -> Result<(), io::Error> {
    if let Some(file) = ledger {
        let mut file = file.lock().expect("no holder of the ledger panics");
        // One write call per line: other processes may append to the same file.
        file.write_all(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}
