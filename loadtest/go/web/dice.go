package main

import "math"

// What a number is drawn for: each draws from a sequence of its own.
const (
	forHostSize = iota + 1
	forRobots
	forBusy
	forSize
	forLatency
	forPath
	forLinks
	forFiller
	forOddity
	forTLS
)

// dice is a splitmix64 sequence that follows from the seed and from what is asked about, so that no
// page depends on which others were asked for before.
type dice struct{ state uint64 }

func (w *web) dice(purpose, host, page int) dice {
	state := mixed(w.seed + uint64(purpose)*0x9E3779B97F4A7C15)
	state = mixed(state + uint64(host))
	return dice{mixed(state + uint64(page))}
}

func mixed(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
	x = (x ^ (x >> 27)) * 0x94D049BB133111EB
	return x ^ (x >> 31)
}

func (d *dice) next() uint64 {
	d.state += 0x9E3779B97F4A7C15
	return mixed(d.state)
}

// below gives 0 to n-1.
func (d *dice) below(n int) int { return int(d.next() % uint64(n)) }

// float gives 0 to 1, without 1.
func (d *dice) float() float64 { return float64(d.next()>>11) / (1 << 53) }

func (d *dice) normal() float64 {
	return math.Sqrt(-2*math.Log(1-d.float())) * math.Cos(2*math.Pi*d.float())
}
