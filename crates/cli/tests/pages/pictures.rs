//! The drawn pictures of the concepts: each is made here, and the file in the repository compared.
//!
//! `BEDLOAD_DRAW=1 cargo test -p bedload-cli --test pages pictures` writes the files.

use std::env;
use std::fs;

use crate::root;

const INK: &str = "#222b36";
const FAINT: &str = "#d9dfe6";
const IN_ORDER: &str = "#c6dbef";
const LATE: &str = "#fdae6b";

/// A picture under construction, of a given size.
struct Drawing {
    text: String,
}

impl Drawing {
    fn new(width: u32, height: u32, title: &str) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"15\" text-anchor=\"middle\">\n\
             <title>{title}</title>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{INK}\"/></marker></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        Self { text }
    }

    fn write(&mut self, x: u32, y: u32, text: &str) {
        self.text += &format!("<text x=\"{x}\" y=\"{y}\" fill=\"{INK}\">{text}</text>\n");
    }

    /// Draws a box with lines of text in its middle.
    fn area(&mut self, at: (u32, u32), size: (u32, u32), fill: &str, lines: &[&str]) {
        let ((x, y), (width, height)) = (at, size);
        self.text += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"{INK}\"/>\n"
        );
        let half = u32::try_from(lines.len()).unwrap() * 10;
        for (line, number) in lines.iter().zip(0..) {
            self.write(x + width / 2, y + height / 2 + 15 + number * 20 - half, line);
        }
    }

    fn arrow(&mut self, from: (u32, u32), to: (u32, u32)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.text += &format!(
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{INK}\" fill=\"none\" marker-end=\"url(#tip)\"/>\n"
        );
    }

    fn finish(self) -> String {
        self.text + "</svg>\n"
    }
}

/// Rows in order of arrival above, sorted below, with a line from each to its sorted position.
fn disorder() -> String {
    const ROWS: [u32; 7] = [1, 2, 4, 5, 7, 3, 6];
    const LATE_ROWS: [u32; 2] = [3, 6];
    let mut picture = Drawing::new(640, 230, "Rows in order of arrival, and in order of time");
    let column = |position: u32| 110 + position * 72;
    for (row, arrival) in ROWS.into_iter().zip(0..) {
        picture.arrow((column(arrival) + 26, 86), (column(row - 1) + 26, 158));
    }
    for (row, arrival) in ROWS.into_iter().zip(0..) {
        let fill = if LATE_ROWS.contains(&row) { LATE } else { IN_ORDER };
        picture.area((column(arrival), 50), (52, 36), fill, &[&row.to_string()]);
        picture.area((column(row - 1), 160), (52, 36), fill, &[&row.to_string()]);
    }
    picture.write(352, 30, "K = 2 (rows 3 and 6), L = 3 (row 3 moves by three)");
    picture.write(54, 73, "arrival");
    picture.write(54, 183, "sorted");
    picture.finish()
}

/// A batch on its way to the log, the head and the tree.
fn path() -> String {
    let mut picture = Drawing::new(640, 330, "The path of a row");
    picture.area((20, 30), (120, 60), FAINT, &["append", "(a batch)"]);
    picture.area(
        (230, 20),
        (170, 80),
        IN_ORDER,
        &["head: sorted runs", "in memory"],
    );
    picture.area((490, 30), (130, 60), FAINT, &["log", "on disk"]);
    picture.arrow((140, 60), (228, 60));
    picture.text += &format!(
        "<path d=\"M80 30C80 2 555 2 555 28\" stroke=\"{INK}\" fill=\"none\" marker-end=\"url(#tip)\"/>\n"
    );
    picture.write(330, 150, "flush");
    picture.arrow((280, 100), (180, 198));
    picture.arrow((350, 100), (450, 198));
    picture.area(
        (60, 200),
        (220, 80),
        LATE,
        &["root of the tree", "late rows, as one run"],
    );
    picture.area(
        (350, 200),
        (220, 80),
        IN_ORDER,
        &["right edge of the tree", "rows in order"],
    );
    picture.write(320, 312, "pages on disk");
    picture.finish()
}

/// A trunk of three nodes with the runs that are pending in each.
fn tree() -> String {
    let mut picture = Drawing::new(640, 330, "A Bε-tree of runs");
    picture.area((220, 20), (200, 56), FAINT, &["root: pivot 12:00"]);
    picture.area((450, 20), (90, 24), LATE, &["late run"]);
    picture.area((450, 52), (90, 24), LATE, &["late run"]);
    picture.arrow((280, 76), (160, 138));
    picture.arrow((360, 76), (480, 138));
    picture.write(170, 106, "before");
    picture.write(470, 106, "at or after");
    picture.area((60, 140), (200, 50), FAINT, &["node"]);
    picture.area((380, 140), (200, 50), FAINT, &["node"]);
    picture.arrow((160, 190), (160, 228));
    picture.arrow((480, 190), (480, 228));
    for x in [60, 380] {
        for leaf in 0..4 {
            picture.area((x + leaf * 50, 230), (50, 40), IN_ORDER, &["leaf"]);
        }
    }
    picture.write(160, 300, "one run of column leaves");
    picture.write(480, 300, "one run of column leaves");
    picture.finish()
}

#[test]
fn pictures_are_those_of_this_code() {
    for (name, drawn) in [("disorder", disorder()), ("path", path()), ("tree", tree())] {
        let file = root().join(format!("docs/concepts/{name}.svg"));
        if env::var_os("BEDLOAD_DRAW").is_some() {
            fs::write(&file, &drawn).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap();
        assert!(
            kept == drawn,
            "{name}.svg differs: run this test with BEDLOAD_DRAW=1"
        );
    }
}
