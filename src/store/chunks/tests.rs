//! Parts of texts that have more than one piece.

use proptest::prelude::*;

use super::*;
use crate::store::reading::StoreRead;
use crate::store::schema;
use crate::store::text_range;

/// A database with the text of one artifact, in pieces of `chunk` bytes.
fn database(text: &str, chunk: usize) -> Connection {
    let connection = schema::tests::in_memory();
    connection
        .execute("INSERT INTO blobs VALUES (1, 'art_1', 0, 0, 0, 0)", [])
        .unwrap();
    let stored = write_with_chunk_size(&connection, 1, text, chunk).unwrap();
    let sum: i64 = connection
        .query_row(
            "SELECT coalesce(sum(length(body)), 0) FROM chunks",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(stored as u64, sum.cast_unsigned());
    connection
}

fn parts() -> impl Strategy<Value = ArtifactRange> {
    prop_oneof![
        Just(ArtifactRange::Whole),
        (0..120u64, 0..60u64)
            .prop_map(|(start, length)| ArtifactRange::Bytes(start..start + length)),
        (0..20u64, 0..12u64).prop_map(|(from, count)| ArtifactRange::Lines { from, count }),
    ]
}

proptest! {
    #[test]
    fn a_part_of_the_pieces_is_the_part_of_the_whole(
        text in "([a-z漢é😀]{0,5}\r?\n?){0,24}", chunk in 4..24usize, part in parts(),
    ) {
        let found = read(&StoreRead::without_budget(&database(&text, chunk)), 1, &part).unwrap();
        let place = text_range::locate(&text, &part);
        prop_assert_eq!(Some(found.text.as_str()), text.get(place.bytes.clone()));
        prop_assert_eq!(found.start, place.bytes.start as u64);
        prop_assert_eq!(found.first_line, place.first_line);
    }
}

#[test]
fn a_part_needs_no_other_pieces() {
    // Pieces of two lines each.
    let text = "a1\nb2\nc3\nd4\ne5\nf6\n";
    for part in [
        ArtifactRange::Bytes(6..12),
        ArtifactRange::Bytes(8..9),
        ArtifactRange::Lines { from: 4, count: 1 },
    ] {
        let connection = database(text, 6);
        connection
            .execute("DELETE FROM chunks WHERE start <> 6", [])
            .unwrap();
        let found = read(&StoreRead::without_budget(&connection), 1, &part).unwrap();
        let wanted = text.get(text_range::locate(text, &part).bytes).unwrap();
        assert_eq!(found.text, wanted, "{part:?}");
    }
}

#[test]
fn a_missing_or_damaged_chunk_is_an_error() {
    for damage in [
        "DELETE FROM chunks WHERE start = 6",
        "UPDATE chunks SET body = x'00' WHERE start = 6",
        "UPDATE chunks SET body = (SELECT body FROM chunks WHERE start = 12), bytes = 5
         WHERE start = 6",
    ] {
        let connection = database("a1\nb2\nc3\nd4\ne5\nf6\n", 6);
        connection.execute(damage, []).unwrap();
        assert!(
            matches!(
                read(
                    &StoreRead::without_budget(&connection),
                    1,
                    &ArtifactRange::Whole
                ),
                Err(StoreError::Damaged(_))
            ),
            "{damage}"
        );
    }
}
