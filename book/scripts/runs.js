/* The page of runs: its table can be searched and sorted. */

import "./runs.css";

import { DataTable } from "simple-datatables";

const words = "Search, for example mini roll";

new DataTable("table.runs", {
  paging: false,
  fixedColumns: false,
  searchAnd: true, // every word, in whatever columns
  labels: { placeholder: words, searchTitle: words, noResults: "No run has all these words" },
});
