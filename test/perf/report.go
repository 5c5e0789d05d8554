package perf

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Row compares the product with the floor under one load.
type Row struct {
	// Name of the load.
	Name string `json:"name"`
	// Runs is how many Runs each side took.
	Runs int `json:"runs"`
	// FloorP50 and ProductP50 are median latencies from create to terminal. Unit: milliseconds.
	FloorP50   float64 `json:"floorP50Millis"`
	ProductP50 float64 `json:"productP50Millis"`
	// ProductP99 is the 99th percentile. Unit: milliseconds.
	ProductP99 float64 `json:"productP99Millis"`
	// FloorRate and ProductRate are Runs per second.
	FloorRate   float64 `json:"floorRunsPerSecond"`
	ProductRate float64 `json:"productRunsPerSecond"`
	// Ratio is what the target bounds: latency over floor latency, or rate over floor rate.
	Ratio float64 `json:"ratio"`
	// Target is the bound in words.
	Target string `json:"target"`
}

// CompareLatency makes a row whose ratio is product p50 over floor p50.
func CompareLatency(name, target string, floor, product Sample) Row {
	row := compare(name, target, floor, product)
	row.Ratio = row.ProductP50 / row.FloorP50
	return row
}

// CompareRate makes a row whose ratio is product Runs/s over floor Runs/s.
func CompareRate(name, target string, floor, product Sample) Row {
	row := compare(name, target, floor, product)
	row.Ratio = row.ProductRate / row.FloorRate
	return row
}

func compare(name, target string, floor, product Sample) Row {
	return Row{
		Name: name, Target: target, Runs: len(product.Latencies),
		FloorP50: millis(floor.Quantile(0.5)), ProductP50: millis(product.Quantile(0.5)), ProductP99: millis(product.Quantile(0.99)),
		FloorRate: floor.Rate(), ProductRate: product.Rate(),
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Memory is the resident memory of one process.
type Memory struct {
	// Process is the name of the component.
	Process string `json:"process"`
	// MiB is the resident set size. Unit: MiB.
	MiB float64 `json:"mib"`
}

// Report is all that one benchmark run measured.
type Report struct {
	// Rows are the comparisons.
	Rows []Row `json:"rows"`
	// CPU is the processor time of each component under each load.
	CPU []CPU `json:"cpu"`
	// Memory is the resident memory of each process after the loads.
	Memory []Memory `json:"memory"`

	// floorP50 is the median of the three writes, one Run at a time.
	floorP50 time.Duration
}

// WriteTable prints the report for people.
func (r Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 2, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "LOAD\tRUNS\tFLOOR P50\tP50\tP99\tFLOOR RUNS/S\tRUNS/S\tRATIO\tTARGET\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%d\t%.1f ms\t%.1f ms\t%.1f ms\t%.0f\t%.0f\t%.2f\t%s\t\n",
			row.Name, row.Runs, row.FloorP50, row.ProductP50, row.ProductP99, row.FloorRate, row.ProductRate, row.Ratio, row.Target)
	}
	if len(r.Memory) > 0 {
		fmt.Fprintln(w, "\t\t\t\t\t\t\t\t\t")
		fmt.Fprintln(w, "PROCESS\tRESIDENT\t")
		for _, m := range r.Memory {
			fmt.Fprintf(w, "%s\t%.1f MiB\t\n", m.Process, m.MiB)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.writeCPU(out)
}

// writeCPU prints a row for each component, with two columns for each load, and their sums.
func (r Report) writeCPU(out io.Writer) error {
	var loads, names []string
	cells := map[[2]string]CPU{}
	sums := map[string]CPU{}
	for _, c := range r.CPU {
		if !slices.Contains(loads, c.Load) {
			loads = append(loads, c.Load)
		}
		if !slices.Contains(names, c.Process) {
			names = append(names, c.Process)
		}
		cells[[2]string{c.Process, c.Load}] = c
		sum := sums[c.Load]
		sums[c.Load] = CPU{FloorMillis: sum.FloorMillis + c.FloorMillis, ProductMillis: sum.ProductMillis + c.ProductMillis}
	}
	if len(names) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 2, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nCPU PER RUN (ms)\t")
	for _, load := range loads {
		fmt.Fprintf(w, "%s: FLOOR\tRUNS\t", load)
	}
	for _, name := range names {
		fmt.Fprintf(w, "\n%s\t", name)
		for _, load := range loads {
			if c, ok := cells[[2]string{name, load}]; ok {
				fmt.Fprintf(w, "%.2f\t%.2f\t", c.FloorMillis, c.ProductMillis)
			} else {
				fmt.Fprint(w, "-\t-\t")
			}
		}
	}
	fmt.Fprint(w, "\nall\t")
	for _, load := range loads {
		fmt.Fprintf(w, "%.2f\t%.2f\t", sums[load].FloorMillis, sums[load].ProductMillis)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
