use std::collections::BTreeSet;

use super::*;

const SIZES: [usize; 2] = [50, 90];

/// Words that tell of trouble, in English and Chinese.
const TROUBLE: [&str; 40] = [
    "error",
    "fail",
    "fatal",
    "panic",
    "exception",
    "warn",
    "crash",
    "corrupt",
    "denied",
    "refused",
    "timeout",
    "timed out",
    "abort",
    "invalid",
    "missing",
    "broken",
    "lost",
    "unreachable",
    "killed",
    "expired",
    "malformed",
    "deadlock",
    "violat",
    "overflow",
    "out of memory",
    "fixme",
    "deprecated",
    "never",
    "do not",
    "don't",
    "must not",
    "cannot",
    "defunct",
    "错误",
    "失败",
    "异常",
    "不",
    "勿",
    "禁",
    "崩溃",
];

fn cases(sizes: &[usize], seed: u64) -> Vec<Case> {
    let recipes = Recipe::all(&NeedleKind::ALL, sizes, 2);
    let cases = recipes.into_iter().map(|recipe| recipe.case(seed));
    cases.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_needle_occurs_once_and_is_visible_in_its_output() {
    for case in cases(&SIZES, 1) {
        assert!(case.is_visible_in(&case.output), "{}", case.id);
        for part in &case.evidence {
            assert!(part.len() > 3, "{}: {part}", case.id);
            assert_eq!(occurrences(&case.output, part), 1, "{}: {part}", case.id);
        }
    }
}

#[test]
fn an_output_has_the_size_that_was_asked_for() {
    for case in cases(&SIZES, 2) {
        let kilobytes = case.kilobytes.unwrap();
        let over = case.output.len().saturating_sub(kilobytes * 1_000);
        assert!(case.output.len() >= kilobytes * 1_000, "{}", case.id);
        assert!(over < 6_000, "{}: {over} bytes over", case.id);
    }
}

#[test]
fn the_same_seed_makes_the_same_outputs_and_another_seed_others() {
    let outputs = |seed| -> Vec<String> {
        let cases = cases(&[45], seed);
        cases.into_iter().map(|case| case.output).collect()
    };
    let (one, again, other) = (outputs(3), outputs(3), outputs(4));
    assert_eq!(one, again);
    assert!(one.iter().zip(&other).all(|(one, other)| one != other));
}

#[test]
fn a_third_of_the_needles_has_no_word_of_trouble() {
    let (mut calm, mut all) = (0, 0);
    for seed in 0..6 {
        for case in cases(&[45], seed) {
            all += 1;
            if case.sort != NeedleSort::Odd {
                continue;
            }
            calm += 1;
            let told = case.evidence.join(" ").to_lowercase();
            let trouble = TROUBLE.iter().find(|word| told.contains(**word));
            assert_eq!(trouble, None, "{}: {told}", case.id);
        }
    }
    assert_eq!(calm * 3, all);
}

#[test]
fn a_call_names_the_subject_in_at_most_a_third_of_the_cases() {
    let all = cases(&[45, 60, 75], 5);
    let asked = all.iter().filter(|case| case.is_asked).count();
    assert_eq!(asked * 3, all.len());
    for case in &all {
        let call = format!("{} {}", case.question, case.command);
        let told = case
            .evidence
            .iter()
            .any(|part| call.contains(part.as_str()));
        assert!(!told || case.is_asked, "{}: {call}", case.id);
    }
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let ids: BTreeSet<String> = cases(&SIZES, 6).into_iter().map(|case| case.id).collect();
    assert_eq!(ids.len(), NeedleKind::ALL.len() * SIZES.len() * 3 * 2);
}

#[test]
fn needles_stand_in_all_parts_of_the_outputs() {
    let mut tenths = BTreeSet::new();
    for case in cases(&[45], 7) {
        let place = case.output.find(&case.evidence[0]).unwrap();
        tenths.insert(place * 10 / case.output.len());
    }
    assert!(tenths.len() >= 9, "{tenths:?}");
}
