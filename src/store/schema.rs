//! Opening the database: its settings, and the steps from older versions.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::data_dir::DataDir;

/// Each brings the schema from the version of its index to the next.
const STEPS: [&str; 1] = [include_str!("001.sql")];

/// How long to wait for another connection. Writers do not wait: there is one.
const BUSY: Duration = Duration::from_secs(5);

/// What the log is cut to after it was long, in bytes.
const LOG: i64 = 4 << 20;

/// Opens the database to write. Everything committed is on the disk.
pub(super) fn writer(place: &DataDir) -> Result<Connection, StoreError> {
    let mut connection = Connection::open_with_flags(place.database_path(), flags())?;
    connection.busy_timeout(BUSY)?;
    // Has effect only before there are tables.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "secure_delete", "FAST")?;
    connection.pragma_update(None, "journal_size_limit", LOG)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Opens the database to read.
pub(super) fn reader(place: &DataDir) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(place.database_path(), flags())?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Whether all of the database can be read. Takes as long as reading it.
pub(super) fn is_sound(connection: &Connection) -> Result<bool, StoreError> {
    let said: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    Ok(said == "ok")
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let done = usize::try_from(version)
        .ok()
        .filter(|done| *done <= STEPS.len());
    let Some(done) = done else {
        return Err(StoreError::Newer(version));
    };
    for (step, to) in STEPS.iter().zip(1_i64..).skip(done) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", to)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An empty database of the current schema.
    pub(in crate::store) fn in_memory() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection
    }

    #[test]
    fn all_is_durable_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let place = DataDir::new(folder.path());
        place.create_files().unwrap();
        let connection = writer(&place).unwrap();
        for (pragma, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("foreign_keys", "1"),
            ("auto_vacuum", "2"),
            ("user_version", "1"),
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

    #[test]
    fn a_newer_schema_is_left_alone() {
        let mut connection = in_memory();
        connection.pragma_update(None, "user_version", 2).unwrap();
        assert!(matches!(migrate(&mut connection), Err(StoreError::Newer(2))));
    }
}
