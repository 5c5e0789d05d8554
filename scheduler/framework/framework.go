package framework

import (
	"errors"
	"fmt"
)

// maxPlugins is bounded by the bit set in which a cycle remembers the skipped ones.
const maxPlugins = 64

// Enabled is a plugin in a profile. Weight multiplies its scores; it counts only for a ScorePlugin, where it must be
// positive.
type Enabled struct {
	Plugin Plugin
	Weight int64
}

// Framework runs cycles over a fixed list of plugins. It is safe for concurrent use if its plugins are.
type Framework struct {
	plugins    []Plugin
	preFilters []indexed[PreFilterPlugin]
	filters    []indexed[FilterPlugin]
	scorers    []scorer
	reservers  []indexed[ReservePlugin]
	// events is parallel to plugins: what may help a Run that the plugin has rejected.
	events []Events
}

type indexed[P Plugin] struct {
	index  int
	plugin P
}

type scorer struct {
	indexed[ScorePlugin]
	weight int64
}

// New makes a Framework of the plugins of a profile, which are called in its order. All that is wrong with the
// profile is reported at once.
func New(profile []Enabled) (*Framework, error) {
	f := &Framework{}
	var errs []error
	if len(profile) > maxPlugins {
		errs = append(errs, fmt.Errorf("profile has %d plugins, at most %d are possible", len(profile), maxPlugins))
	}
	seen := map[string]bool{}
	for i, e := range profile {
		name := e.Plugin.Name()
		if seen[name] {
			errs = append(errs, fmt.Errorf("plugin %s is listed twice", name))
		}
		seen[name] = true
		if _, scores := e.Plugin.(ScorePlugin); scores && e.Weight <= 0 {
			errs = append(errs, fmt.Errorf("plugin %s scores and needs a weight above 0, not %d", name, e.Weight))
		}
		if err := f.add(i, e); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Framework) add(i int, e Enabled) error {
	f.plugins = append(f.plugins, e.Plugin)
	pre, isPreFilter := e.Plugin.(PreFilterPlugin)
	if isPreFilter {
		f.preFilters = append(f.preFilters, indexed[PreFilterPlugin]{i, pre})
	}
	filter, isFilter := e.Plugin.(FilterPlugin)
	if isFilter {
		f.filters = append(f.filters, indexed[FilterPlugin]{i, filter})
	}
	if p, ok := e.Plugin.(ScorePlugin); ok {
		f.scorers = append(f.scorers, scorer{indexed[ScorePlugin]{i, p}, e.Weight})
	}
	reserve, isReserve := e.Plugin.(ReservePlugin)
	if isReserve {
		f.reservers = append(f.reservers, indexed[ReservePlugin]{i, reserve})
	}
	var events Events
	if p, ok := e.Plugin.(EventsPlugin); ok {
		events = p.EventsToRegister()
	} else if isPreFilter || isFilter || isReserve {
		return fmt.Errorf("plugin %s may reject and must tell which events help", e.Plugin.Name())
	}
	f.events = append(f.events, events)
	return nil
}

// Result is the outcome of a cycle: a Pod, or a Diagnosis.
type Result struct {
	// Pod is where the Run goes; nil when it fits nowhere.
	Pod *PodInfo
	// Diagnosis says why there is no Pod; nil when there is one.
	Diagnosis *Diagnosis
	// Cycle holds what plugins have kept, for Reserve and Unreserve.
	Cycle *Cycle
}

// Schedule finds a Pod for run. It changes neither argument.
func (f *Framework) Schedule(snapshot *Snapshot, run *RunInfo) Result {
	c := &Cycle{Run: run, Snapshot: snapshot}
	if d := f.preFilter(c); d != nil {
		return Result{Diagnosis: d, Cycle: c}
	}
	fits := make([]*PodInfo, 0, len(snapshot.Pods))
	d := Diagnosis{Closed: ClosedForAll}
	for _, pod := range snapshot.Pods {
		status, plugin := f.filter(c, pod)
		if status == nil {
			fits = append(fits, pod)
			continue
		}
		if status.Code == Error {
			return Result{Diagnosis: f.rejectAll(c, plugin, status), Cycle: c}
		}
		if d.verdicts == nil {
			d.verdicts = make([]*Status, 0, len(snapshot.Pods))
		}
		d.verdicts = append(d.verdicts, status)
		d.Closed = min(d.Closed, status.Closed)
		events := f.wakeOn(plugin, status)
		d.WakeOn |= events
		if c.narrowed && events.Has(CapacityFreed) {
			d.FreedOn = append(d.FreedOn, pod.UID)
			if status.Closed == ClosedForAll {
				d.FullOn = append(d.FullOn, pod.UID)
			}
		}
	}
	switch len(fits) {
	case 0:
		d.pods, d.runtime = snapshot.Pods, snapshot.Runtime
		d.Class, d.Line = c.classes()
		d.conclude()
		return Result{Diagnosis: &d, Cycle: c}
	case 1:
		return Result{Pod: fits[0], Cycle: c}
	}
	return Result{Pod: f.best(c, fits), Cycle: c}
}

func (f *Framework) preFilter(c *Cycle) *Diagnosis {
	for _, p := range f.preFilters {
		status := p.plugin.PreFilter(c)
		if status.Rejected() {
			return f.rejectAll(c, p.index, status)
		}
		if status != nil && status.Code == Skip {
			c.skip(p.index)
		}
	}
	return nil
}

// filter returns the first rejection and the index of the plugin it is from.
func (f *Framework) filter(c *Cycle, pod *PodInfo) (rejection *Status, plugin int) {
	for i := range f.filters {
		p := &f.filters[i]
		if c.skips(p.index) {
			continue
		}
		if status := p.plugin.Filter(c, pod); status.Rejected() {
			return status, p.index
		}
	}
	return nil, 0
}

// best returns the Pod with the largest weighted sum of scores, the first of those by name.
func (f *Framework) best(c *Cycle, pods []*PodInfo) *PodInfo {
	total := make([]int64, len(pods))
	scores := make([]int64, len(pods))
	for _, s := range f.scorers {
		if c.skips(s.index) {
			continue
		}
		for i, pod := range pods {
			scores[i] = s.plugin.Score(c, pod)
		}
		s.plugin.Normalize(c, scores)
		for i := range scores {
			total[i] += s.weight * min(MaxScore, max(MinScore, scores[i]))
		}
	}
	best := 0
	for i := range total {
		if total[i] > total[best] {
			best = i
		}
	}
	return pods[best]
}

// Reserve lets the plugins claim what the Run of the cycle needs on pod. After a rejection nothing is reserved.
func (f *Framework) Reserve(c *Cycle, pod *PodInfo) *Diagnosis {
	for _, p := range f.reservers {
		if status := p.plugin.Reserve(c, pod); status.Rejected() {
			f.Unreserve(c, pod)
			return f.rejectAll(c, p.index, status)
		}
	}
	return nil
}

// Unreserve undoes Reserve, last plugin first. It may be called more than once.
func (f *Framework) Unreserve(c *Cycle, pod *PodInfo) {
	for i := len(f.reservers) - 1; i >= 0; i-- {
		f.reservers[i].plugin.Unreserve(c, pod)
	}
}

func (f *Framework) rejectAll(c *Cycle, plugin int, status *Status) *Diagnosis {
	d := &Diagnosis{Reason: status.Reason, WakeOn: f.wakeOn(plugin, status), Err: status.Err, whole: status}
	d.Class, d.Line = c.classes()
	return d
}

func (f *Framework) wakeOn(plugin int, status *Status) Events {
	events := f.events[plugin]
	if status.WakeOn != 0 {
		events &= status.WakeOn
	}
	if status.Code == Unresolvable {
		events &^= podEvents
	}
	return events
}
