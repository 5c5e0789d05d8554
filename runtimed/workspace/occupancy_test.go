package workspace

import "testing"

func TestOccupancy(t *testing.T) {
	var o Occupancy
	expect := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	expect("the first enters", o.Enter("a"), true)
	expect("another one enters", o.Enter("a"), true)
	o.Leave("a")
	expect("it is closed while somebody is in", o.Close("a"), false)
	expect("somebody enters after that", o.Enter("a"), true)
	o.Leave("a")
	o.Leave("a")
	expect("it is closed when all have left", o.Close("a"), true)
	expect("somebody enters while it is closed", o.Enter("a"), false)
	expect("another workspace is entered", o.Enter("b"), true)
	o.Open("a")
	expect("it is open again", o.Enter("a"), true)
}
