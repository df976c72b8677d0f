// What came about while the cloud was away is told before more is claimed: else jobs whose leases ran out meanwhile would be given out anew, to this station perhaps, while their good labels lie here.

const TRIES_MAX = 5; // with a cloud that answers whatever else it is asked: it may never take them

/** What is left when they were sent: `isThere` where the cloud itself refused them, `isMoving` where fewer are left, or fewer go at a time from now on. */
type Left = { isThere: boolean; isMoving: boolean };

/** Reports that weren't taken when they were sent; `isBehind`: some wait from the run before. */
export function arrearsOf(isBehind: boolean) {
  let isBack = false; // heard of since they were sent last
  let tries = 0;
  const goFirst = () => isBehind && tries < TRIES_MAX;
  return {
    goFirst,
    /** The cloud has answered something; true where they needn't wait any longer. */
    heard: (): boolean => {
      const isNews = goFirst() && !isBack;
      isBack ||= isNews;
      return isNews;
    },
    /** It answers no claim either: once it is back it may take them. */
    away: (): void => void (tries = 0),
    /** A cloud that was there is no news: each of its answers would be a try, and all of them over in a moment. */
    left: ({ isThere, isMoving }: Left): void => {
      if ((isBack || isThere) && !isMoving) tries += 1;
      isBack = isThere && !isMoving;
      isBehind = true;
    },
    /** True where something was left before. */
    allTold: (): boolean => {
      const isOver = isBehind;
      isBehind = isBack = false;
      tries = 0;
      return isOver;
    },
  };
}
