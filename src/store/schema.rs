//! Opens the database with its settings, and migrates it from older versions.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::data_dir::DataDir;
use super::error::StoreError;
use super::lock_patience::LOCK_TIMEOUT;
use super::page_caches::{self, READER_CACHE, WRITER_CACHE};

/// The migrations. The one at index N brings the schema from version N to N + 1.
const MIGRATIONS: [&str; 23] = [
    include_str!("001.sql"),
    include_str!("002.sql"),
    include_str!("003.sql"),
    include_str!("004.sql"),
    include_str!("005.sql"),
    include_str!("006.sql"),
    include_str!("007.sql"),
    include_str!("008.sql"),
    include_str!("009.sql"),
    include_str!("010.sql"),
    include_str!("011.sql"),
    include_str!("012.sql"),
    include_str!("013.sql"),
    include_str!("014.sql"),
    include_str!("015.sql"),
    include_str!("016.sql"),
    include_str!("017.sql"),
    include_str!("018.sql"),
    include_str!("019.sql"),
    include_str!("020.sql"),
    include_str!("021.sql"),
    include_str!("022.sql"),
    include_str!("023.sql"),
];

/// The size in bytes to which the write-ahead log is truncated after it has grown.
const WAL_SIZE_LIMIT: i64 = 4 << 20;

/// The most statements that a connection keeps prepared: more than turns need, so that none is
/// prepared for each of them.
const PREPARED_STATEMENTS: usize = 64;

/// Opens the connection that writes. A commit returns when its data is on the disk.
pub(super) fn writer(data_dir: &DataDir) -> Result<Connection, StoreError> {
    let mut connection = Connection::open_with_flags(data_dir.database_path(), flags())?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // This has an effect only before the first table is created.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "secure_delete", "FAST")?;
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
    page_caches::limit(&connection, WRITER_CACHE)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Opens a connection that only reads. Where nothing can be written, not even the memory that
/// connections share, it reads the file as it is, if all that was written is in it.
pub(super) fn reader(data_dir: &DataDir) -> Result<Connection, StoreError> {
    let path = data_dir.database_path();
    let opened = Connection::open_with_flags(&path, flags()).map_err(StoreError::from);
    let opened = opened.and_then(|connection| {
        connection.busy_timeout(Duration::ZERO)?;
        let read = connection.pragma_query_value(None, "schema_version", |_| Ok(()));
        match read.map_err(StoreError::from) {
            Err(error) if !error.is_locked() => Err(error),
            // Readers wait until it is unlocked.
            Ok(()) | Err(_) => Ok(connection),
        }
    });
    let connection = match opened {
        Err(error) if error.is_unwritable() && path.exists() && data_dir.log_bytes() == 0 => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(unchanging_uri(&path), flags)?
        }
        opened => opened?,
    };
    connection.busy_timeout(LOCK_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
    page_caches::limit(&connection, READER_CACHE)?;
    Ok(connection)
}

/// The address of a database that is not changed meanwhile.
fn unchanging_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => write!(uri, "%{byte:02x}").unwrap_or_default(),
        }
    }
    uri + "?immutable=1"
}

/// Refuses a database of another version than the current one.
pub(super) fn check_version(connection: &Connection) -> Result<(), StoreError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match usize::try_from(version) {
        Ok(version) if version == MIGRATIONS.len() => Ok(()),
        Ok(older) if older < MIGRATIONS.len() => Err(StoreError::Older(version)),
        Ok(_) | Err(_) => Err(StoreError::Newer(version)),
    }
}

/// Whether the whole database is readable and consistent. Takes as long as reading it.
pub(super) fn is_sound(connection: &Connection) -> Result<bool, StoreError> {
    let result: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    Ok(result == "ok")
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let done = usize::try_from(version)
        .ok()
        .filter(|done| *done <= MIGRATIONS.len());
    let Some(done) = done else {
        return Err(StoreError::Newer(version));
    };
    for (migration, to) in MIGRATIONS.iter().zip(1_i64..).skip(done) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", to)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::{ArtifactFilter, ArtifactRange, Store};

    /// An empty database with the current schema.
    pub(in crate::store) fn in_memory() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection
    }

    #[test]
    fn the_settings_make_commits_durable() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        data_dir.create_files().unwrap();
        let connection = writer(&data_dir).unwrap();
        for (pragma, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("foreign_keys", "1"),
            ("auto_vacuum", "2"),
            ("user_version", "23"),
        ] {
            let found: rusqlite::types::Value = connection
                .pragma_query_value(None, pragma, |row| row.get(0))
                .unwrap();
            let found = match found {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, value, "{pragma}");
        }
        assert!(is_sound(&connection).unwrap());
    }

    /// Promise: A store of an older version is migrated, and one of a newer version is left alone
    /// and reported.
    #[tokio::test]
    async fn every_version_is_migrated_and_keeps_its_data() {
        let mut text = String::new();
        for n in 0..3_000 {
            writeln!(text, "step {n}: 漢字 é, all is well").unwrap();
        }
        for version in 1..=MIGRATIONS.len() {
            let fixture = format!("fixtures/store/{version}.sql");
            let sql = std::fs::read_to_string(&fixture)
                .unwrap_or_else(|error| panic!("{fixture}, a dump of version {version}: {error}"));
            let folder = tempfile::tempdir().unwrap();
            let data_dir = DataDir::new(folder.path());
            data_dir.create_files().unwrap();
            let old = Connection::open(data_dir.database_path()).unwrap();
            old.execute_batch(&sql).unwrap();
            drop(old);
            let store = Store::open(&data_dir, 0).unwrap();
            assert_eq!(store.moved_aside(), None);
            let filter = ArtifactFilter::default();
            let listed = store.list("local", &filter).await.unwrap();
            assert_eq!(listed.len(), 1, "version {version}");
            assert_eq!(
                (&*listed[0].session, &*listed[0].call_id, listed[0].created),
                ("session 1", "call_1", 1_795_405_885)
            );
            let read = store
                .read("local", &listed[0].id, &ArtifactRange::Whole)
                .await;
            assert!(*read.unwrap().unwrap().text == text);
            let migrated = reader(&data_dir).unwrap();
            let version: usize = migrated
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .unwrap();
            assert_eq!(version, MIGRATIONS.len());
            // What older versions have answered gets no sources afterwards.
            for table in ["sources", "tool_runs"] {
                let count = format!("SELECT count(*) FROM {table}");
                let count: u32 = migrated.query_row(&count, [], |row| row.get(0)).unwrap();
                assert_eq!(count, 0, "{table}");
            }
        }
    }

    #[test]
    fn jobs_that_an_older_version_has_ended_as_interrupted_count_as_such() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .pragma_update(None, "foreign_keys", false)
            .unwrap();
        for migration in &MIGRATIONS[..11] {
            connection.execute_batch(migration).unwrap();
        }
        connection.pragma_update(None, "user_version", 11).unwrap();
        let words = "The server ended while it answered this request, so the answer is not \
            complete: send the request again.";
        for (number, status, message) in [
            (1, "failed", words),
            (2, "failed", "The provider failed."),
            (3, "completed", words),
        ] {
            let head = format!("{{\"error\":{{\"message\":\"{message}\"}},\"output\":[");
            let response =
                "INSERT INTO responses VALUES (?1, 'resp_' || ?1, 'local', NULL, 0, 0, 0,
                                ?2, 1, ?3, ']', 1, 0, 0, 0, 0)";
            let values = rusqlite::params![number, status, head];
            connection.execute(response, values).unwrap();
            let job = "INSERT INTO jobs (response, owner, state, queued)
                       VALUES (?1, 'local', 'ended', 0)";
            connection.execute(job, [number]).unwrap();
        }
        migrate(&mut connection).unwrap();
        let mut select = connection
            .prepare("SELECT interrupted FROM jobs ORDER BY response")
            .unwrap();
        let found = select.query_map([], |row| row.get(0)).unwrap();
        let found: Vec<bool> = found.map(Result::unwrap).collect();
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn a_newer_schema_is_left_alone() {
        let mut connection = in_memory();
        connection.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(
            migrate(&mut connection),
            Err(StoreError::Newer(99))
        ));
    }
}
