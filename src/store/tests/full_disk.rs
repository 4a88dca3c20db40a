//! Disks that are full, and files that cannot be written.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ffi;
use tempfile::TempDir;

use super::{OWNER, item, response};
use crate::store::{DataDir, NewItem, NewResponse, Store, StoreError, StoredOrigin};

/// A small file system of its own, until this is dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None` if this process may not mount one.
    fn mount() -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
        if mount(&options, disk.0.path()) {
            return Some(disk);
        }
        eprintln!("NOT TESTED: no file system can be mounted here, so no disk can be full");
        None
    }

    fn remount(&self, options: &str) {
        let options = ["-o", &format!("remount,{options}")];
        assert!(mount(&options, self.0.path()));
    }

    /// Takes all room that is left.
    fn fill_up(&self) {
        let mut file = fs::File::create(self.0.path().join("junk")).unwrap();
        let mut bytes = &[1; 8 << 10][..];
        while !bytes.is_empty() {
            if file.write_all(bytes).is_err() {
                bytes = &bytes[..bytes.len() / 2];
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.0.path().join("junk")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status()
            .ok();
    }
}

fn mount(options: &[&str], path: &Path) -> bool {
    let output = Command::new("mount").args(options).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// A store that was there before, so that it has its reserve.
fn open_again(data_dir: &DataDir) -> Store {
    drop(Store::open(data_dir, 0).unwrap());
    Store::open(data_dir, 0).unwrap()
}

/// A response with an item that compresses badly.
fn large(number: usize) -> NewResponse {
    let json = format!("{{\"n\":{number},\"text\":\"{}\"}}", super::noise(100_000));
    let item = NewItem { json, ..item("a") };
    NewResponse {
        input: vec![item],
        ..response(&format!("r{number}"), StoredOrigin::Nothing, &[], &["b"])
    }
}

async fn has(store: &Store, id: &str) -> bool {
    store.response(OWNER, id).await.unwrap().is_some()
}

/// Waits until a response can be stored.
async fn wait_until_written(store: &Store) {
    let limit = Instant::now() + Duration::from_secs(30);
    while store.put_response(large(1_000)).await.is_err() {
        assert!(Instant::now() < limit, "it is never written again");
        tokio::task::yield_now().await;
    }
    assert!(has(store, "r1000").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_a_full_disk_is_read_and_can_be_deleted() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let data_dir = DataDir::new(disk.0.path().join("data"));
    let store = open_again(&data_dir);
    let mut stored = 0;
    while store.put_response(large(stored)).await.is_ok() {
        stored += 1;
    }
    assert!(stored > 3, "{stored}");
    disk.fill_up();
    assert!(store.put_response(large(stored)).await.is_err());
    for number in 0..stored {
        let id = format!("r{number}");
        assert!(has(&store, &id).await);
        assert!(store.delete_response(OWNER, &id).await.unwrap(), "{id}");
    }
    wait_until_written(&store).await;
    assert!(store.purge().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_a_full_or_read_only_disk_is_read_until_it_can_be_written() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let data_dir = DataDir::new(disk.0.path().join("data"));
    let store = open_again(&data_dir);
    store.put_response(large(0)).await.unwrap();
    drop(store);
    for read_only in [false, true] {
        if read_only {
            disk.remount("ro");
        } else {
            assert!(data_dir.give_up_reserve());
            disk.fill_up();
        }
        let store = Store::open(&data_dir, 0).unwrap();
        assert!(has(&store, "r0").await);
        assert!(!has(&store, "r1").await);
        assert!(store.put_response(large(1)).await.is_err());
        assert!(store.delete_response(OWNER, "r0").await.is_err());
        assert!(has(&store, "r0").await);
        if read_only {
            disk.remount("rw");
        } else {
            disk.make_room();
        }
        wait_until_written(&store).await;
        assert!(store.delete_response(OWNER, "r1000").await.unwrap());
    }
}

#[tokio::test]
async fn the_reserve_is_given_up_for_what_is_deleted_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let store = open_again(&data_dir);
    let full = || {
        let full = ffi::Error::new(ffi::SQLITE_FULL);
        StoreError::Sqlite(rusqlite::Error::SqliteFailure(full, None))
    };
    let tries = AtomicUsize::new(0);
    let second = move |_: &mut _| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err(full()),
        _ => Ok(()),
    };
    assert!(store.delete_with(second).await.is_ok());
    assert!(!data_dir.give_up_reserve());
    assert!(
        store
            .delete_with(move |_| Err::<(), _>(full()))
            .await
            .is_err()
    );
    drop(store);
    let _store = Store::open(&data_dir, 0).unwrap();
    assert!(data_dir.give_up_reserve());
}
