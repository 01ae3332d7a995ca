//! Tables that are not there.

use crate::harness::Place;

#[test]
fn each_command_says_which_tables_there_are() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2026-03-01,1\n");
    place.output("ingest s t a.csv --time t");
    place.output("ingest s u a.csv --time t --source-id one");
    place.output("ingest empty t a.csv --time t --source-id one");
    place.output("drop empty t");
    for command in [
        "query S none",
        "tail S none",
        "info S none",
        "sources S none",
        "sources S none --forget a",
        "delete S none --from 2026",
        "delete S none --from 2026 --dry-run",
        "retention S none",
        "retention S none 1d",
        "add-columns S none x:utf8",
        "rename-column S none n m",
        "drop-column S none n",
        "rename S none new",
        "drop S none",
        "convert S none new --add x:utf8",
    ] {
        for (store, message) in [
            ("s", "the store has no table none; there are: t, u"),
            ("empty", "the store has no table none, nor any other"),
        ] {
            let command = command.replacen('S', store, 1);
            assert_eq!(place.run(&command).fails(1), message, "{command}");
        }
    }
}
