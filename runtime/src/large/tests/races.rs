//! The checker: it accepts correct plans, and reports every missing wait.

use super::plans::{plan, request, requests};
use crate::large::races::{Order, races};
use crate::large::{Action, Operation, shuffled};

fn is_wait(operation: &Operation) -> bool {
    matches!(operation.action, Action::Wait(_))
}

/// Pairs of operations other than events, and whether the first precedes the second.
fn relation(operations: &[Operation]) -> Vec<bool> {
    let order = Order::of(operations);
    let events = |index: &usize| matches!(operations[*index].action, Action::Record(_) | Action::Wait(_));
    let steps: Vec<usize> = (0..operations.len()).filter(|index| !events(index)).collect();
    let pairs = steps.iter().flat_map(|&first| steps.iter().map(move |&second| (first, second)));
    pairs.map(|(first, second)| order.precedes(first, second)).collect()
}

#[test]
fn plans_have_no_races() {
    for request in requests() {
        let plan = plan(request);
        let found = races(&plan.operations);
        assert!(found.is_empty(), "{}\n{plan}", found[0]);
    }
}

/// Every wait that is not redundant is needed, and the checker reports it if it is missing; hardly any is redundant.
#[test]
fn each_missing_wait_is_a_race() {
    let (mut waits, mut redundant) = (0, 0);
    for request in requests() {
        let operations = plan(request).operations;
        let complete = relation(&operations);
        for index in (0..operations.len()).filter(|&index| is_wait(&operations[index])) {
            let mut without = operations.clone();
            without.remove(index);
            waits += 1;
            match (races(&without).is_empty(), relation(&without) == complete) {
                (false, _) => {}
                (true, true) => redundant += 1,
                (true, false) => {
                    panic!("{} orders something that nobody needs, or its race is not found", operations[index])
                }
            }
        }
    }
    println!("{waits} waits, {redundant} redundant");
    assert!(waits > 500 && redundant == 0, "{redundant} of {waits} waits are redundant");
}

#[test]
fn a_missing_record_is_a_race_too() {
    let operations = plan(request(70, 90, 30, 4)).operations;
    let records = (0..operations.len()).filter(|&index| matches!(operations[index].action, Action::Record(_)));
    for index in records {
        let mut without = operations.clone();
        let record = without.remove(index);
        assert!(!races(&without).is_empty(), "{record}");
    }
}

#[test]
fn a_race_is_reported_with_both_operations() {
    let mut operations = plan(request(32, 32, 16, 1)).operations;
    let wait = operations.iter().position(is_wait).unwrap();
    operations.remove(wait);
    insta::assert_snapshot!(races(&operations)[0].to_string());
}

#[test]
fn shuffled_operations_keep_the_order_of_streams_and_events() {
    let operations = plan(request(70, 90, 30, 4)).operations;
    let order = Order::of(&operations);
    let orders: std::collections::BTreeSet<Vec<usize>> = (0..50).map(|seed| shuffled(&operations, seed)).collect();
    assert_eq!(orders.len(), 50, "orders differ");
    for shuffled in orders {
        assert_eq!(shuffled.len(), operations.len());
        for (at, &later) in shuffled.iter().enumerate() {
            assert!(shuffled[at + 1..].iter().all(|&earlier| !order.precedes(earlier, later)));
        }
    }
}
