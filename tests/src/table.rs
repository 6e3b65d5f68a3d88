//! A table for people to read.

pub struct Table {
    lines: Vec<Vec<String>>,
    title: String,
}

impl Table {
    pub fn new<const N: usize>(title: &str, columns: [&str; N]) -> Table {
        Table { title: title.to_owned(), lines: vec![std::iter::once("").chain(columns).map(str::to_owned).collect()] }
    }

    pub fn line(&mut self, head: &str, cells: Vec<String>) {
        self.lines.push(std::iter::once(head.to_owned()).chain(cells).collect());
    }

    pub fn print(&self) {
        let columns = self.lines[0].len();
        let width = |column: usize| self.lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        println!("\n{}\n", self.title);
        for line in &self.lines {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            println!("  {}", cells.join("   ").trim_end());
        }
        println!();
    }
}
