//! Manual pages, as packages install them.

use std::fs;

use crate::harness::Place;

#[test]
fn each_command_has_a_manual_page() {
    let place = Place::new();
    fs::create_dir(place.path("man")).unwrap();
    place.output("manual man");
    let help = place.output("--help");
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(
        names.contains(&"ingest") && names.contains(&"manual"),
        "{names:?}"
    );
    let main = fs::read_to_string(place.path("man/bedload.1")).unwrap();
    for name in names {
        let page = fs::read_to_string(place.path(&format!("man/bedload-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
        let named = name.replace('-', "\\-");
        assert!(main.contains(&format!("bedload\\-{named}(1)")), "{name}");
    }
    let failed = place.run("manual nowhere").fails(5);
    assert!(failed.contains("nowhere"), "{failed}");
}
