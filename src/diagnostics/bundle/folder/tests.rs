use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::sample;
use super::*;

const ALL: RetentionLimits = RetentionLimits {
    files: 100,
    bytes: 1 << 20,
    age: Duration::from_hours(24),
};

/// A folder in a folder that is there, and a time soon after the sample turns.
struct Desk {
    place: TempDir,
    now: SystemTime,
}

impl Desk {
    fn new() -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            now: UNIX_EPOCH + Duration::from_secs(1_786_082_704 + 600),
        }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("data/bundles")
    }

    fn folder(&self, limits: RetentionLimits) -> BundleFolder {
        BundleFolder::new(self.path(), limits)
    }

    /// Puts the turns of these numbers there, `bytes` bytes each.
    fn put(&self, folder: &BundleFolder, numbers: &[usize], bytes: usize) {
        for number in numbers {
            let turn = sample::turn(*number);
            folder.write(&turn, &vec![b'x'; bytes], self.now).unwrap();
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn numbers(kept: &[StoredBundle]) -> Vec<usize> {
    kept.iter()
        .map(|it| usize::from_str_radix(it.request_id.trim_start_matches("req_"), 16).unwrap())
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Lets a file look as if it was written at this time.
fn age(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

// S43
#[test]
fn a_turn_is_a_file_that_its_owner_alone_reads() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    let path = folder.write(&sample::turn(1), b"bundle", desk.now).unwrap();
    let name = "20260807-060505-req_00000000000000000000000000000001.tar.zst";
    assert_eq!(path, desk.path().join(name));
    assert_eq!(fs::read(&path).unwrap(), b"bundle");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&desk.path()), 0o700);
    assert_eq!(desk.names(), [name]);
}

/// The umask is the process's: another one runs the test above.
// S43
#[test]
fn no_umask_opens_it_to_others() {
    let name = "diagnostics::bundle::folder::tests::a_turn_is_a_file_that_its_owner_alone_reads";
    let test = std::env::current_exe().unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", "umask 000; exec \"$0\" --exact \"$1\""])
        .args([test.as_os_str(), name.as_ref()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

// S43
#[test]
fn modes_that_were_there_before_do_not_count() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path()).unwrap();
    fs::set_permissions(desk.path(), Permissions::from_mode(0o777)).unwrap();
    let folder = desk.folder(ALL);
    let path = folder.write(&sample::turn(1), b"one", desk.now).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    folder.write(&sample::turn(1), b"two", desk.now).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&desk.path()), 0o700);
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn the_newest_stands_first() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    assert_eq!(folder.list().unwrap(), []);
    desk.put(&folder, &[2, 5, 1, 4], 10);
    assert_eq!(numbers(&folder.list().unwrap()), [5, 4, 2, 1]);
}

#[test]
fn of_one_second_the_last_written_is_the_newest() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    for (id, written) in [("req_b", 2), ("req_a", 1), ("req_c", 3)] {
        let turn = BundleTurn {
            request_id: id.into(),
            ..sample::turn(1)
        };
        let path = folder.write(&turn, b"x", desk.now).unwrap();
        age(&path, desk.now + Duration::from_millis(written));
    }
    let ids: Vec<String> = folder
        .list()
        .unwrap()
        .into_iter()
        .map(|it| it.request_id)
        .collect();
    assert_eq!(ids, ["req_c", "req_b", "req_a"]);
}

#[test]
fn the_oldest_go_beyond_each_limit() {
    for (limits, left) in [
        (RetentionLimits { files: 2, ..ALL }, vec![4, 3]),
        (RetentionLimits { bytes: 39, ..ALL }, vec![4, 3, 2]),
        (RetentionLimits { bytes: 40, ..ALL }, vec![4, 3, 2, 1]),
        // 600 seconds later, turns 1 and 2 are 599 and 598 seconds old.
        (
            RetentionLimits {
                age: Duration::from_secs(597),
                ..ALL
            },
            vec![4, 3],
        ),
    ] {
        let desk = Desk::new();
        desk.put(&desk.folder(ALL), &[1, 2, 3, 4], 10);
        let folder = desk.folder(limits);
        folder.prune(desk.now).unwrap();
        assert_eq!(numbers(&folder.list().unwrap()), left, "{limits:?}");
        folder
            .write(&sample::turn(5), &[b'x'; 10], desk.now)
            .unwrap();
        let kept = folder.list().unwrap();
        assert!(kept.len() <= limits.files, "{limits:?}");
        assert!(kept.iter().map(|it| it.bytes).sum::<u64>() <= limits.bytes);
        assert_eq!(numbers(&kept).first(), Some(&5));
    }
}

#[test]
fn a_bundle_beyond_all_limits_is_refused_and_costs_no_other() {
    let desk = Desk::new();
    let folder = desk.folder(RetentionLimits { bytes: 25, ..ALL });
    desk.put(&folder, &[1, 2], 10);
    let error = folder
        .write(&sample::turn(3), &[0; 26], desk.now)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the bundle has 26 bytes, and 25 may be kept"
    );
    assert_eq!(numbers(&folder.list().unwrap()), [2, 1]);
}

#[test]
fn files_of_others_stay() {
    let desk = Desk::new();
    let folder = desk.folder(RetentionLimits { files: 0, ..ALL });
    fs::create_dir_all(desk.path()).unwrap();
    let others = [
        "20260807-060505.tar.zst",
        "20260807-060505-.tar.zst",
        "20260807-060505-req_1.tar",
        "20260807-060505-req 1.tar.zst",
        "20260807-060505-req_1.tar.zst.bak",
        "20261307-060505-req_1.tar.zst",
        "20260807_060505-req_1.tar.zst",
        "mine.tar.zst",
        "notes.part",
        "é0260807-060505-req_1.tar.zst",
    ];
    for name in others {
        let path = desk.path().join(name);
        fs::write(&path, b"x").unwrap();
        age(&path, UNIX_EPOCH);
    }
    fs::create_dir(desk.path().join("20260807-060505-req_2.tar.zst")).unwrap();
    folder.prune(desk.now).unwrap();
    assert_eq!(desk.names().len(), others.len() + 1);
    assert_eq!(folder.list().unwrap(), []);
}

#[test]
fn what_was_never_finished_goes_after_an_hour() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    fs::create_dir_all(desk.path()).unwrap();
    for (name, minutes) in [("req_old", 61), ("req_new", 59)] {
        let path = desk
            .path()
            .join(format!("20260807-060505-{name}.tar.zst.part"));
        fs::write(&path, b"half").unwrap();
        age(&path, desk.now - Duration::from_mins(minutes));
    }
    assert_eq!(folder.list().unwrap(), []);
    folder.prune(desk.now).unwrap();
    assert_eq!(desk.names(), ["20260807-060505-req_new.tar.zst.part"]);
}

#[test]
fn a_half_written_file_gives_way_to_its_own_turn() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    let path = folder.write(&sample::turn(1), b"whole", desk.now).unwrap();
    let mut half = path.clone().into_os_string();
    half.push(".part");
    fs::write(&half, b"half").unwrap();
    folder.write(&sample::turn(1), b"again", desk.now).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"again");
    assert!(!Path::new(&half).exists());
}

#[test]
fn a_folder_that_is_gone_is_made_again() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    desk.put(&folder, &[1], 10);
    fs::remove_dir_all(desk.path()).unwrap();
    folder.prune(desk.now).unwrap();
    assert_eq!(folder.list().unwrap(), []);
    desk.put(&folder, &[2], 10);
    assert_eq!(numbers(&folder.list().unwrap()), [2]);
}

// S43
#[test]
fn links_are_not_followed() {
    let desk = Desk::new();
    let (folder, other) = (desk.folder(ALL), desk.place.path().join("other"));
    let path = folder.write(&sample::turn(1), b"one", desk.now).unwrap();
    let mut half = path.clone().into_os_string();
    half.push(".part");
    fs::remove_file(&path).unwrap();
    fs::write(&other, b"mine").unwrap();
    symlink(&other, &path).unwrap();
    symlink(&other, &half).unwrap();
    assert_eq!(folder.list().unwrap(), []);
    folder.write(&sample::turn(1), b"two", desk.now).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"mine");
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn a_link_or_a_file_in_the_place_of_the_folder_is_refused() {
    let desk = Desk::new();
    let elsewhere = desk.place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
    let (link, file) = (
        desk.place.path().join("link"),
        desk.place.path().join("file"),
    );
    symlink(&elsewhere, &link).unwrap();
    fs::write(&file, b"mine").unwrap();
    for place in [link, file] {
        let folder = BundleFolder::new(&place, ALL);
        let error = folder.write(&sample::turn(1), b"x", desk.now).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} is no folder", place.display())
        );
        assert!(folder.list().is_err());
        assert!(folder.prune(desk.now).is_err());
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(mode(&elsewhere), 0o755);
    assert_eq!(fs::read(desk.place.path().join("file")).unwrap(), b"mine");
}

#[test]
fn nothing_is_left_of_a_file_that_could_not_be_finished() {
    let desk = Desk::new();
    let folder = desk.folder(ALL);
    let path = folder.write(&sample::turn(1), b"x", desk.now).unwrap();
    fs::remove_file(&path).unwrap();
    // A folder that is not empty cannot be replaced.
    fs::create_dir_all(path.join("full")).unwrap();
    assert!(folder.write(&sample::turn(1), b"x", desk.now).is_err());
    assert_eq!(desk.names().len(), 1);
}

proptest! {
    #[test]
    fn no_id_leaves_the_folder(id in "(?s).{0,120}") {
        let turn = BundleTurn { request_id: id.clone(), ..sample::turn(1) };
        let name = file_name(&turn);
        prop_assert!(!name.contains('/') && !name.contains('\0') && name.len() < 200);
        let (_, found) = parse_file_name(&name).unwrap();
        prop_assert_eq!(found, sanitized_id(&id));
    }
}
