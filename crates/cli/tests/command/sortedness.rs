//! The sortedness of a file, in figures and as a picture.

use crate::harness::{Place, flights};

#[test]
fn the_departures_of_a_year() {
    let place = Place::new();
    let file = flights();
    let file = file.to_str().unwrap();
    for picture in ["p.svg", "p.png"] {
        let arguments = [
            "sortedness",
            file,
            "--column",
            "departure",
            "--json",
            "--picture",
            picture,
        ];
        let report: serde_json::Value = serde_json::from_str(&place.run_with(&arguments).succeeds()).unwrap();
        assert_eq!(report["rows"], 328_521);
        assert_eq!(report["without_value"], 8_255);
        assert_eq!(report["k"], 156_941);
        assert_eq!(report["l"], 770);
        assert_eq!(
            format!("{:.1}", report["below_running_max_percent"].as_f64().unwrap()),
            "94.8"
        );
        assert_eq!(
            format!("{:.1}", report["adjacent_inversions_percent"].as_f64().unwrap()),
            "24.2"
        );
    }

    let svg = std::fs::read_to_string(place.path("p.svg")).unwrap();
    assert!(svg.starts_with("<svg"));
    assert!(svg.contains("K = 156,941 (47.8 %), L = 770 (0.23 %)"));

    let decoder = png::Decoder::new(std::io::BufReader::new(
        std::fs::File::open(place.path("p.png")).unwrap(),
    ));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.width, frame.height), (1200, 640));
    let dark = pixels
        .chunks_exact(3)
        .filter(|pixel| pixel.iter().all(|&part| part < 0x70))
        .count();
    assert!(dark > 1000, "the densest cells and the letters are dark: {dark}");
}

#[test]
fn any_column_that_has_an_order() {
    let place = Place::new();
    place.write(
        "a.csv",
        "day,number,ratio,big,word,flag,stamp\n\
         2013-01-02,3,0.5,18446744073709551615,b,true,2013-01-01T00:00:00Z\n\
         2013-01-01,-1,-1e9,1,a,false,2013-01-01T00:00:00+01:00\n\
         2013-01-03,3,nan,18446744073709551615,c,true,2013-01-02T00:00:00Z\n",
    );
    for column in ["day", "number", "ratio", "big", "word", "flag", "stamp"] {
        let report = place.json(&format!("sortedness a.csv --json --column {column}"));
        assert_eq!((&report["k"], &report["l"]), (&1.into(), &1.into()), "{column}");
        assert_eq!(report["adjacent_inversions"], 1, "{column}");
    }
    assert!(
        place
            .output("sortedness a.csv --column day")
            .contains("K  (33.3 %)")
    );
}

#[test]
fn a_picture_names_the_file_without_its_directories() {
    let place = Place::new();
    std::fs::create_dir(place.path("private")).unwrap();
    place.write("private/a.csv", "t\n3\n1\n2\n");
    let file = place.path("private/a.csv");
    let arguments = [
        "sortedness",
        file.to_str().unwrap(),
        "--column",
        "t",
        "--picture",
        "a.svg",
    ];
    place.run_with(&arguments).succeeds();
    let svg = std::fs::read_to_string(place.path("a.svg")).unwrap();
    assert!(svg.contains("a.csv, column t") && !svg.contains("private"));
}

#[test]
fn decimals_and_short_floats_are_compared_whole() {
    let place = Place::new();
    place.write(
        "a.csv",
        "at,price,ratio\n1,1.9,1.75\n2,1.2,1.25\n3,99999999999999999999.99,2\n4,1.3,3\n",
    );
    let types = "price:decimal(30,2),ratio:float16";
    place
        .run(&format!(
            "ingest s t a.csv --time at --time-unit s --schema {types}"
        ))
        .succeeds();
    place
        .run("query s t --format parquet --output a.parquet")
        .succeeds();
    let measured = |column: &str| place.json(&format!("sortedness a.parquet --column {column} --json"));
    let price = measured("price");
    assert_eq!(price["rows"], 4);
    assert_eq!(price["k"], 2);
    assert_eq!(price["adjacent_inversions"], 2);
    assert_eq!(measured("ratio")["k"], 1);
}

#[test]
fn rows_that_cannot_be_read_end_it_or_are_left_out_and_counted() {
    let place = Place::new();
    place.write("a.csv", "n,word\n3,a\n1,b\n2,c,d\n2,e\n");
    let failed = place.run("sortedness a.csv --column n").fails(1);
    assert!(
        failed.contains("a.csv:4:") && failed.contains("--on-error skip"),
        "{failed}"
    );

    let report = place.json("sortedness a.csv --column n --on-error skip --json");
    assert_eq!((&report["rows"], &report["k"]), (&3.into(), &1.into()));
    assert_eq!(report["skipped"]["by_reason"]["wrong number of fields"], 1);
    let run = place.run("sortedness a.csv --column n --on-error skip");
    assert!(run.stderr.contains("1 row skipped: wrong number of fields"));
}

#[test]
fn a_column_has_the_type_that_it_is_given() {
    let place = Place::new();
    place.write("a.csv", "n\n10\n9\n8\n");
    let inversions = |schema: &str| {
        place.json(&format!("sortedness a.csv --column n --json {schema}"))["adjacent_inversions"].clone()
    };
    assert_eq!(inversions(""), 2);
    assert_eq!(inversions("--schema n:utf8"), 1, "as texts, 10 is before 9");
    let failed = place.run("sortedness a.csv --column n --schema m:utf8").fails(1);
    assert!(failed.contains("no column is named m"), "{failed}");
}
