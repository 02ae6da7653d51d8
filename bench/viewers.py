AIM = 2.0
def watched(place, viewers, seconds): return None
