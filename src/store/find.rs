//! Lists artifacts and reads ranges of them.

use adapters::plan::output::OutputKind;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chunks;
use super::error::StoreError;
use super::model::{ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText};
use super::reading::StoreRead;

/// Selects one row per text: its newest reference among those that match.
const SELECT_ENTRIES: &str = "
    SELECT blobs.id, refs.session, refs.call, refs.kind, blobs.chars, blobs.lines, blobs.bytes,
           refs.created, mine.accessed, blobs.number
    FROM (SELECT blob, max(number) AS latest, max(accessed) AS accessed
          FROM refs
          WHERE owner = ?1 AND (?2 IS NULL OR session = ?2)
                AND (?3 IS NULL OR blob = (SELECT number FROM blobs WHERE id = ?3))
          GROUP BY blob) AS mine
    JOIN refs ON refs.number = mine.latest
    JOIN blobs ON blobs.number = mine.blob";

pub(super) fn list(
    connection: &Connection,
    owner: &str,
    filter: &ArtifactFilter,
) -> Result<Vec<ArtifactEntry>, StoreError> {
    let session = filter.session.as_deref();
    let mut before = i64::MAX;
    if let Some(after) = &filter.after {
        let mut latest = connection.prepare_cached(
            "SELECT max(number) FROM refs
             WHERE owner = ?1 AND (?2 IS NULL OR session = ?2)
                   AND blob = (SELECT number FROM blobs WHERE id = ?3)",
        )?;
        let number: Option<i64> =
            latest.query_row(params![owner, session, after], |row| row.get(0))?;
        match number {
            Some(number) => before = number,
            None => return Ok(Vec::new()),
        }
    }
    let limit = match filter.limit {
        0 => -1,
        limit => i64::try_from(limit).unwrap_or(i64::MAX),
    };
    let sql = format!(
        "{SELECT_ENTRIES}
         WHERE mine.latest < ?4 AND (?6 IS NULL OR substr(blobs.id, 1, length(?6)) = ?6)
         ORDER BY mine.latest DESC LIMIT ?5"
    );
    let prefix = filter.id_prefix.as_deref();
    let mut select = connection.prepare_cached(&sql)?;
    let nothing: Option<&str> = None;
    let values = params![owner, session, nothing, before, limit, prefix];
    let rows = select.query_map(values, entry)?;
    Ok(rows.collect::<Result<Vec<ArtifactEntry>, _>>()?)
}

pub(super) fn read(
    reading: &StoreRead<'_>,
    owner: &str,
    id: &str,
    range: &ArtifactRange,
) -> Result<Option<ArtifactText>, StoreError> {
    let mut select = reading.prepare_cached(SELECT_ENTRIES)?;
    let nothing: Option<&str> = None;
    let found = select
        .query_row(params![owner, nothing, id], |row| {
            Ok((entry(row)?, row.get::<_, i64>(9)?))
        })
        .optional()?;
    let Some((entry, blob)) = found else {
        return Ok(None);
    };
    let found = chunks::read(reading, blob, range)?;
    if matches!(range, ArtifactRange::Whole) && found.text.len() as u64 != entry.bytes {
        return Err(StoreError::Damaged("the end of a text is missing"));
    }
    Ok(Some(ArtifactText {
        entry,
        bytes: found.start..found.start + found.text.len() as u64,
        first_line: found.first_line,
        text: reading.counted(found.text),
    }))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<ArtifactEntry> {
    Ok(ArtifactEntry {
        id: row.get(0)?,
        session: row.get(1)?,
        call_id: row.get(2)?,
        // A name of another version of the program counts as opaque.
        kind: row
            .get_ref(3)?
            .as_str()?
            .parse()
            .unwrap_or(OutputKind::OpaqueToolOutput),
        chars: row.get(4)?,
        lines: row.get(5)?,
        bytes: row.get(6)?,
        created: row.get(7)?,
        accessed: row.get(8)?,
        persistent: true,
    })
}
