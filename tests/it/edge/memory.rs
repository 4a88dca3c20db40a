//! Bodies beyond the memory budget of the process.
use std::pin::pin;
use std::time::Duration;

use respondent::net::memory::{MemoryKind, ProcessMemory};
use respondent::serve::{BodyLimits, EdgeSettings, ListenLimits};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::routes::begun;
use super::server::{LARGE_ANSWER, Server, read_to_close};

const MIB: usize = 1 << 20;

async fn server(limit: usize) -> (Server, ProcessMemory) {
    let memory = ProcessMemory::new(limit);
    let body = BodyLimits {
        memory: memory.clone(),
        ..BodyLimits::default()
    };
    let settings = EdgeSettings {
        body,
        ..EdgeSettings::default()
    };
    (
        Server::with(settings, ListenLimits::default()).await,
        memory,
    )
}

/// A connection that has announced a body of so many bytes and sent some of them.
async fn announced(server: &Server, bytes: usize, sent: usize) -> TcpStream {
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {{host}}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream
        .write_all(&server.fill(head.as_bytes()))
        .await
        .unwrap();
    stream.write_all(&vec![b' '; sent]).await.unwrap();
    stream
}

/// A connection that has sent so many bytes of a body which is not complete.
async fn unfinished(server: &Server, memory: &ProcessMemory, bytes: usize) -> TcpStream {
    let before = memory.used();
    let stream = announced(server, bytes + 1, bytes).await;
    while memory.used() < before + 3 * bytes {
        sleep(Duration::from_millis(1)).await;
    }
    stream
}

async fn freed(memory: &ProcessMemory) {
    while memory.used() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

#[kit::test]
async fn a_body_beyond_the_memory_of_the_process_is_refused_and_taken_when_there_is_room() {
    let (server, memory) = server(12 * MIB).await;
    let one = unfinished(&server, &memory, 3 * MIB).await;
    let reply = server.post_turn(&vec![b' '; 2 * MIB], "").await;
    let message = reply.assert_error(503, "server_memory_full");
    assert!(message.contains("again"), "{message}");
    assert_eq!(reply.header("retry-after"), Some("5"));
    assert_eq!(*server.log.refused.lock().unwrap(), ["memory_full"]);
    drop(one);
    freed(&memory).await;
    server
        .post_turn(&vec![b' '; MIB], "")
        .await
        .assert_ok("1048576 bytes");
    freed(&memory).await;
}

#[kit::test]
async fn a_coded_body_counts_as_it_is_decoded() {
    let (server, memory) = server(4 * MIB).await;
    let bomb = zstd::encode_all(vec![b' '; 8 * MIB].as_slice(), 1).unwrap();
    assert!(bomb.len() < 8 * 1024);
    let header = "Content-Encoding: zstd\r\n";
    let reply = server.post_turn(&bomb, header).await;
    reply.assert_error(503, "server_memory_full");
    freed(&memory).await;
}

#[kit::test]
async fn an_answer_counts_until_its_client_has_taken_it() {
    let (server, memory) = server(usize::MAX).await;
    let mut unread = begun(&server, b"large answer").await;
    while memory.used_for(MemoryKind::Answers) < LARGE_ANSWER {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(read_to_close(&mut unread).await.body().len(), LARGE_ANSWER);
    freed(&memory).await;
}

#[kit::test]
async fn a_body_waits_for_memory_that_is_about_to_be_free() {
    let (server, memory) = server(4 * MIB).await;
    let mut running = memory.share(MemoryKind::Answers);
    running.set(4 * MIB);
    let body = vec![b' '; MIB];
    let reply = server.post_turn(&body, "");
    tokio::pin!(reply);
    tokio::select! {
        biased;
        reply = &mut reply => panic!("not waited for: {reply:?}"),
        () = sleep(Duration::from_millis(50)) => {}
    }
    drop(running);
    reply.await.assert_ok("1048576 bytes");
}

#[kit::test]
async fn a_body_has_all_of_its_memory_before_it_is_read_or_waits_with_nothing_in_hand() {
    let (server, memory) = server(12 * MIB).await;
    let bytes = 3 * MIB;
    let mut first = announced(&server, bytes, 1).await;
    while memory.used() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let reserved = memory.used();
    assert!(reserved >= 3 * bytes, "{reserved} bytes");
    let body = vec![b' '; bytes];
    let mut second = pin!(server.post_turn(&body, ""));
    tokio::select! {
        biased;
        reply = &mut second => panic!("not waited for: {reply:?}"),
        () = sleep(Duration::from_millis(50)) => {}
    }
    assert_eq!(memory.used(), reserved);
    first.write_all(&body[1..]).await.unwrap();
    let expected = format!("{bytes} bytes");
    read_to_close(&mut first).await.assert_ok(&expected);
    second.await.assert_ok(&expected);
}
